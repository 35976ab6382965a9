import { create } from '@bufbuild/protobuf'
import type { Counter } from '../../../lib/counter.ts'
import { Code } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'
import { CommitService, GetTreeEntriesRequestSchema, TreeEntry_EntryType } from '../../../proto/gen/gitaly_pb.ts'
import { type CommitId, isCommitId } from '../repositories.ts'
import { type GitalyCalls, isStatus } from './gitaly-calls.ts'

export interface AgentsFolderComponents {
  readonly calls: Pick<GitalyCalls, 'repository' | 'call'>
  /** bytes that all repositories keep of read files and listings; beyond its bound nothing more is kept */
  readonly kept: Counter<unknown>
  /** @throws KasError REPOSITORY_FAILED if the commit does not exist */
  assurePresent(commit: CommitId, signal?: AbortSignal): Promise<void>
}

/** Entry at a path: a regular file with its object id, or another object, or none. */
export type FolderEntry =
  | { readonly is: 'absent' }
  | { readonly is: 'file'; readonly blob: string }
  | { readonly is: 'other' }

const folder = '.gitlab/agents'
/** paths of agents' files in the folder; nothing else of it is kept */
const agentsFile = /^\.gitlab\/agents\/[^/]+\/(?:config|gitops|views)\.yaml$/
/** bound of a listing; beyond it each file is read on its own */
const maxEntries = 50_000
/** bound of the kept files of one folder, in bytes; those of most projects are smaller */
const maxContentBytes = 1 << 20
/** memory of an entry of a listing, beside its path, in bytes */
const entryBytes = 160
/** file type in the mode of a git tree's entry */
const fileTypeMask = 0o170000
const regularFile = 0o100000

const absent: FolderEntry = { is: 'absent' }
const other: FolderEntry = { is: 'other' }

type Listing = ReadonlyMap<string, FolderEntry>

interface Newest {
  readonly commit: CommitId
  listing: Promise<Listing | undefined>
}

/**
 * The folder of a project's agent files. It is listed once per commit for all agents, and unchanged files are not read
 * again. Gitaly takes 15 calls a second, and a project may have thousands of agents. If the listing fails, each file is
 * read on its own.
 */
export class AgentsFolder {
  readonly #components: AgentsFolderComponents
  #newest: Newest | undefined
  /** bytes of the kept listing */
  #listedBytes = 0
  /** contents by object id, least recently used first */
  readonly #contents = new Map<string, Uint8Array>()
  #contentBytes = 0

  constructor(components: AgentsFolderComponents) {
    this.#components = components
  }

  /**
   * Returns the entry at `path`; `undefined`: the listing does not know, and the file is to be read on its own.
   *
   * @throws the signal's reason
   */
  async entry(commit: CommitId, path: string, signal: AbortSignal): Promise<FolderEntry | undefined> {
    if (!agentsFile.test(path)) return undefined
    const listing = await abortable(this.#listing(commit), signal)
    return listing && (listing.get(path) ?? absent)
  }

  content(blob: string): Uint8Array | undefined {
    const content = this.#contents.get(blob)
    if (!content) return undefined
    this.#contents.delete(blob)
    this.#contents.set(blob, content)
    return content
  }

  /** Keeps a file's content if there is room. */
  keep(blob: string, content: Uint8Array): void {
    this.#forget(blob)
    if (content.length > maxContentBytes || !this.#components.kept.enter(this, content.length)) return
    this.#contents.set(blob, Buffer.from(new Uint8Array(content).buffer)) // in memory of its own
    this.#contentBytes += content.length
    for (const oldest of this.#contents.keys()) {
      if (this.#contentBytes <= maxContentBytes) return
      this.#forget(oldest)
    }
  }

  /** Drops everything that is kept. */
  clear(): void {
    for (const blob of [...this.#contents.keys()]) this.#forget(blob)
    this.#forgetListing()
  }

  #forget(blob: string): void {
    const bytes = this.#contents.get(blob)?.length ?? 0
    this.#contents.delete(blob)
    this.#contentBytes -= bytes
    this.#components.kept.add(this, -bytes)
  }

  #forgetListing(): void {
    this.#newest = undefined
    this.#components.kept.add(this, -this.#listedBytes)
    this.#listedBytes = 0
  }

  #listing(commit: CommitId): Promise<Listing | undefined> {
    if (this.#newest?.commit === commit) return this.#newest.listing
    this.#forgetListing()
    const newest: Newest = { commit, listing: this.#list(commit) }
    newest.listing = newest.listing.then((listing) => this.#kept(listing, newest))
    this.#newest = newest
    return newest.listing
  }

  /** Counts the bytes of a listing, unless a newer one has replaced it. @returns undefined: there is no room for it */
  #kept(listing: Listing | undefined, newest: Newest): Listing | undefined {
    if (!listing || this.#newest !== newest) return listing
    let bytes = 0
    for (const path of listing.keys()) bytes += entryBytes + path.length
    if (!this.#components.kept.enter(this, bytes)) return undefined
    this.#listedBytes = bytes
    return listing
  }

  /** Lists the folder for all callers: no caller's signal ends the listing. */
  async #list(commit: CommitId): Promise<Listing | undefined> {
    const { calls, assurePresent } = this.#components
    const request = create(GetTreeEntriesRequestSchema, {
      repository: calls.repository,
      revision: Buffer.from(commit),
      path: Buffer.from(folder),
      recursive: true,
      skipFlatPaths: true,
    })
    const listing = new Map<string, FolderEntry>()
    let count = 0
    try {
      for await (const { entries } of calls.call(CommitService.method.getTreeEntries, request, undefined)) {
        count += entries.length
        if (count > maxEntries) return undefined
        for (const { type, mode, path: bytes, oid } of entries) {
          const path = Buffer.from(bytes).toString()
          const isFile = type === TreeEntry_EntryType.BLOB && (mode & fileTypeMask) === regularFile && isCommitId(oid)
          if (agentsFile.test(path)) listing.set(path, isFile ? { is: 'file', blob: oid } : other)
        }
      }
    } catch (error) {
      const isAbsent = isStatus(error, Code.NOT_FOUND) || isStatus(error, Code.INVALID_ARGUMENT)
      if (!isAbsent || count > 0) return undefined // a partial listing does not prove that a file is absent
    }
    if (count > 0) return listing
    return await assurePresent(commit).then(
      () => listing,
      () => undefined, // the read of a file throws the reason
    )
  }
}
