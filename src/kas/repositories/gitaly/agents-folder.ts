import { create } from '@bufbuild/protobuf'
import type { Counter } from '../../../lib/counter.ts'
import { Code } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'
import { CommitService, GetTreeEntriesRequestSchema, TreeEntry_EntryType } from '../../../proto/gen/gitaly_pb.ts'
import { type CommitId, isCommitId } from '../repositories.ts'
import { type GitalyCalls, isStatus } from './gitaly-calls.ts'

export interface AgentsFolderComponents {
  readonly calls: Pick<GitalyCalls, 'repository' | 'call'>
  /** bytes that all repositories keep of what they have read: where there is no room nothing more is kept */
  readonly kept: Counter<unknown>
  /** @throws KasError REPOSITORY_FAILED if the commit is not there */
  assurePresent(commit: CommitId, signal?: AbortSignal): Promise<void>
}

/** What stands at a path: a regular file with that object id, or something else. */
export type FolderEntry =
  | { readonly is: 'absent' }
  | { readonly is: 'file'; readonly blob: string }
  | { readonly is: 'other' }

const folder = '.gitlab/agents'
/** those that agents have there: of the rest of the folder nothing is kept */
const agentsFile = /^\.gitlab\/agents\/[^/]+\/(?:config|gitops|views)\.yaml$/
/** beyond that each file is asked for by itself */
const maxEntries = 50_000
/** of files of one folder: those of most projects are smaller */
const maxContentBytes = 1 << 20
/** of one that a listing has, beside its path */
const entryBytes = 160
/** of a git tree's entry: type and permissions */
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
 * The folder in which the files of a project's agents stand: listed once a commit for all of them, and what has not
 * changed since is not read again. Gitaly takes 15 calls a second, and a project may have thousands of agents. Whatever
 * cannot be listed is asked for by itself.
 */
export class AgentsFolder {
  readonly #components: AgentsFolderComponents
  #newest: Newest | undefined
  /** of the listing that is kept */
  #listedBytes = 0
  /** by object id, the one used last last */
  readonly #contents = new Map<string, Uint8Array>()
  #contentBytes = 0

  constructor(components: AgentsFolderComponents) {
    this.#components = components
  }

  /**
   * `undefined`: it is to be asked for by itself.
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

  /** Unless there is no room. */
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

  /** Nothing of it is kept any more. */
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

  /** What is newer by now has its place. */
  #kept(listing: Listing | undefined, newest: Newest): Listing | undefined {
    if (!listing || this.#newest !== newest) return listing
    let bytes = 0
    for (const path of listing.keys()) bytes += entryBytes + path.length
    if (!this.#components.kept.enter(this, bytes)) return undefined
    this.#listedBytes = bytes
    return listing
  }

  /** For all who ask: nobody's signal ends it. */
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
      if (!isAbsent || count > 0) return undefined // half a listing says nothing of what is absent
    }
    if (count > 0) return listing
    return await assurePresent(commit).then(
      () => listing,
      () => undefined, // who asks for a file gets the reason
    )
  }
}
