import { create } from '@bufbuild/protobuf'
import { Code } from '../../../lib/errors.ts'
import { abortable } from '../../../lib/signals.ts'
import { CommitService, GetTreeEntriesRequestSchema, TreeEntry_EntryType } from '../../../proto/gen/gitaly_pb.ts'
import type { CommitId } from '../repositories.ts'
import { failed, type GitalyCalls, isStatus } from './gitaly-calls.ts'

export interface AgentsFolderComponents {
  readonly calls: Pick<GitalyCalls, 'repository' | 'call'>
  /** @throws KasError REPOSITORY_FAILED if the commit is not there */
  assurePresent(commit: CommitId, signal?: AbortSignal): Promise<void>
}

/** What stands at a path: a regular file with that object id, or something else. */
export type FolderEntry =
  | { readonly is: 'absent' }
  | { readonly is: 'file'; readonly blob: string }
  | { readonly is: 'other' }

const folder = '.gitlab/agents'
/** beyond that each file is asked for by itself */
const maxEntries = 50_000
const maxPathsBytes = 8 << 20
/** of files of the folder that are kept: those of most projects are smaller */
const maxKeptBytes = 1 << 20
/** of a git tree's entry: type and permissions */
const fileTypeMask = 0o170000
const regularFile = 0o100000

const absent: FolderEntry = { is: 'absent' }
const other: FolderEntry = { is: 'other' }

type Listing = ReadonlyMap<string, FolderEntry>

/**
 * The folder in which the files of a project's agents stand: listed once a commit for all of them, and what has not
 * changed since is not read again. Gitaly takes 15 calls a second, and a project may have thousands of agents.
 */
export class AgentsFolder {
  readonly #components: AgentsFolderComponents
  #newest: { readonly commit: CommitId; readonly listing: Promise<Listing | undefined> } | undefined
  /** by object id, the one used last last */
  readonly #contents = new Map<string, Uint8Array>()
  #keptBytes = 0

  constructor(components: AgentsFolderComponents) {
    this.#components = components
  }

  /**
   * `undefined`: the path is elsewhere, or too much stands in the folder.
   *
   * @throws KasError STATUS as Gitaly said, REPOSITORY_FAILED, SHUTTING_DOWN; the signal's reason
   */
  async entry(commit: CommitId, path: string, signal: AbortSignal): Promise<FolderEntry | undefined> {
    if (!path.startsWith(`${folder}/`)) return undefined
    const listing = await abortable(this.#listing(commit), signal)
    return listing && (listing.get(path) ?? absent)
  }

  kept(blob: string): Uint8Array | undefined {
    const content = this.#contents.get(blob)
    if (!content) return undefined
    this.#contents.delete(blob)
    this.#contents.set(blob, content)
    return content
  }

  keep(blob: string, content: Uint8Array): void {
    if (content.length > maxKeptBytes) return
    this.#forget(blob)
    this.#contents.set(blob, new Uint8Array(content)) // in memory of its own
    this.#keptBytes += content.length
    for (const oldest of this.#contents.keys()) {
      if (this.#keptBytes <= maxKeptBytes) return
      this.#forget(oldest)
    }
  }

  #forget(blob: string): void {
    this.#keptBytes -= this.#contents.get(blob)?.length ?? 0
    this.#contents.delete(blob)
  }

  #listing(commit: CommitId): Promise<Listing | undefined> {
    if (this.#newest?.commit === commit) return this.#newest.listing
    const newest = { commit, listing: this.#list(commit) }
    this.#newest = newest
    newest.listing.catch(() => {
      if (this.#newest === newest) this.#newest = undefined
    })
    return newest.listing
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
    let pathsBytes = 0
    try {
      for await (const { entries } of calls.call(CommitService.method.getTreeEntries, request, undefined)) {
        for (const { type, mode, path, oid } of entries) {
          pathsBytes += path.length
          if (listing.size >= maxEntries || pathsBytes > maxPathsBytes) return undefined
          const isFile = type === TreeEntry_EntryType.BLOB && (mode & fileTypeMask) === regularFile
          listing.set(Buffer.from(path).toString(), isFile ? { is: 'file', blob: oid } : other)
        }
      }
    } catch (error) {
      if (!isStatus(error, Code.NOT_FOUND) && !isStatus(error, Code.INVALID_ARGUMENT)) {
        throw failed('GetTreeEntries', error)
      }
    }
    if (listing.size === 0) await assurePresent(commit)
    return listing
  }
}
