import { create } from '@bufbuild/protobuf'
import { Code, KasError } from '../../../lib/errors.ts'
import {
  CommitService,
  GetTreeEntriesRequestSchema,
  InfoRefsRequestSchema,
  SmartHTTPService,
  TreeEntry_EntryType,
  TreeEntryRequestSchema,
  type TreeEntryResponse,
  TreeEntryResponse_ObjectType,
} from '../../../proto/gen/gitaly_pb.ts'
import { type CommitId, isCommitId } from '../repositories.ts'
import { AgentsFolder, type AgentsFolderComponents } from './agents-folder.ts'
import type { CallQueue } from './gitaly-call-limit.ts'
import { failed, GitalyCalls, type GitalyCallsComponents, isStatus } from './gitaly-calls.ts'
import type { GitalyCoordinates } from './gitaly-coordinates.ts'
import { GitalyTree } from './gitaly-tree.ts'
import { ReferenceDiscovery } from './reference-discovery.ts'

export interface GitalyRepositoryOptions {
  /** full name of a ref, or the id of a commit, that is read instead of the default branch */
  readonly ref?: string | undefined
  /** bytes of the advertisement of refs; a longer one fails the poll */
  readonly maxRefsBytes?: number
  /** bytes that are read on after the branch was found: Gitaly caches an answer that is read whole */
  readonly maxReadOnBytes?: number
  /** files below one path; more are refused */
  readonly maxFiles?: number
  /** bytes of the paths below one path; more are refused */
  readonly maxPathsBytes?: number
}

const defaults = { maxRefsBytes: 64 << 20, maxReadOnBytes: 4 << 20, maxFiles: 50_000, maxPathsBytes: 8 << 20 }

/** file type in the mode of a git tree's entry */
const fileTypeMask = 0o170000
const symbolicLink = 0o120000

/** One repository in Gitaly (doc/reference/tunnel-protocol.md 1.20). */
export class GitalyRepository {
  readonly #coordinates: GitalyCoordinates
  readonly tree: GitalyTree
  readonly #calls: GitalyCalls
  readonly #agentsFolder: AgentsFolder
  readonly #options: GitalyRepositoryOptions & typeof defaults
  /** branch that HEAD named at the last poll, if GitLab names none */
  #headBranch: string | undefined

  constructor(
    coordinates: GitalyCoordinates,
    components: GitalyCallsComponents & Pick<AgentsFolderComponents, 'kept'>,
    options: GitalyRepositoryOptions = {},
  ) {
    this.#coordinates = coordinates
    this.#calls = new GitalyCalls(coordinates, components)
    this.#options = { ...defaults, ...options }
    const assurePresent = (commit: CommitId, signal?: AbortSignal) => this.#assurePresent(commit, signal)
    this.#agentsFolder = new AgentsFolder({
      calls: this.#calls,
      kept: components.kept,
      assurePresent,
    })
    this.tree = new GitalyTree({ calls: this.#calls, agentsFolder: this.#agentsFolder, assurePresent })
  }

  /**
   * Polls the commit of the default branch, or of the ref; `undefined`: the repository is empty.
   *
   * @throws KasError REF_NOT_FOUND, REPOSITORY_FAILED, SHUTTING_DOWN
   */
  async head(queue: CallQueue, signal?: AbortSignal): Promise<CommitId | undefined> {
    this.#calls.begin(queue)
    const { defaultBranch } = this.#coordinates
    const { ref = defaultBranch === '' ? undefined : `refs/heads/${defaultBranch}` } = this.#options
    if (ref !== undefined && isCommitId(ref)) return await this.#present(ref, signal)
    const discovery = new ReferenceDiscovery(ref)
    const request = create(InfoRefsRequestSchema, { repository: this.#calls.repository })
    let bytes = 0
    try {
      for await (const { data } of this.#calls.call(SmartHTTPService.method.infoRefsUploadPack, request, signal)) {
        if (!discovery.isFound) discovery.take(data)
        bytes += data.length
        if (discovery.isFound ? bytes > this.#options.maxReadOnBytes : bytes > this.#options.maxRefsBytes) break
      }
    } catch (error) {
      if (!discovery.isFound) throw failed('InfoRefsUploadPack', error) // else the rest was for Gitaly's cache
    }
    if (bytes > this.#options.maxRefsBytes && !discovery.isFound) {
      const detail = `Gitaly sends more than ${this.#options.maxRefsBytes} bytes of refs`
      throw new KasError({ code: 'REPOSITORY_FAILED', detail })
    }
    const commit = discovery.end()
    this.#headBranch = discovery.branch
    return commit
  }

  /** Name of the default branch; undefined: neither GitLab nor the last poll has named it. */
  get branch(): string | undefined {
    return this.#coordinates.defaultBranch || this.#headBranch
  }

  /**
   * Reads a file at a commit; `undefined` if it is absent there.
   *
   * @throws KasError CONFIGURATION_INVALID if it is larger than `maxBytes` or not a file, REPOSITORY_FAILED,
   * SHUTTING_DOWN
   */
  async file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const entry = await this.#agentsFolder.entry(commit, path, signal)
    if (entry?.is === 'absent') return undefined
    const kept = entry?.is === 'file' ? this.#agentsFolder.content(entry.blob) : undefined
    if (kept && kept.length > maxBytes) throw largerThan(path, maxBytes, String(kept.length))
    if (kept) return kept
    const content = await this.#read(commit, path, maxBytes, signal)
    if (content && entry?.is === 'file') this.#agentsFolder.keep(entry.blob, content)
    return content
  }

  async #read(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const request = create(TreeEntryRequestSchema, {
      repository: this.#calls.repository,
      revision: Buffer.from(commit),
      path: Buffer.from(path),
      maxSize: BigInt(maxBytes),
    })
    const parts: Uint8Array[] = []
    let first: TreeEntryResponse | undefined
    let bytes = 0
    try {
      for await (const message of this.#calls.call(CommitService.method.treeEntry, request, signal)) {
        if (!first) checkFile(path, maxBytes, message)
        first ??= message
        parts.push(message.data)
        bytes += message.data.length
        if (bytes > Number(first.size)) break
      }
    } catch (error) {
      if (isStatus(error, Code.FAILED_PRECONDITION)) throw tooLarge(path, maxBytes, error)
      if (!isStatus(error, Code.NOT_FOUND)) throw failed('TreeEntry', error)
      await this.#assurePresent(commit, signal)
      return undefined
    }
    if (!first || bytes !== Number(first.size)) {
      throw new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly's TreeEntry: ${path} is not as long as it says` })
    }
    return Buffer.concat(parts)
  }

  /**
   * Lists the paths of all files below `path` at the head of the default branch, in git's order. The list is empty if
   * the path or the branch does not exist.
   *
   * @throws KasError STATUS if Gitaly reports an invalid argument, else REPOSITORY_FAILED
   */
  async files(path: string, signal: AbortSignal): Promise<string[]> {
    const { defaultBranch } = this.#coordinates
    const request = create(GetTreeEntriesRequestSchema, {
      repository: this.#calls.repository,
      revision: Buffer.from(defaultBranch === '' ? 'HEAD' : `refs/heads/${defaultBranch}`),
      path: Buffer.from(path),
      recursive: true,
      skipFlatPaths: true,
    })
    const { maxFiles, maxPathsBytes } = this.#options
    const files: string[] = []
    let pathsBytes = 0
    try {
      for await (const { entries } of this.#calls.call(CommitService.method.getTreeEntries, request, signal)) {
        for (const { type, path: at } of entries) {
          pathsBytes += at.length
          if (pathsBytes > maxPathsBytes) throw tooMuchBelow(path, `paths of more than ${maxPathsBytes} bytes`)
          if (type === TreeEntry_EntryType.BLOB) files.push(Buffer.from(at).toString())
        }
        if (files.length > maxFiles) throw tooMuchBelow(path, `more than ${maxFiles} files`)
      }
    } catch (error) {
      if (isStatus(error, Code.NOT_FOUND)) return []
      throw isStatus(error, Code.INVALID_ARGUMENT) ? error : failed('GetTreeEntries', error)
    }
    return files
  }

  /** Moves running and later calls to a more urgent queue: a caller waits for them. */
  hurry(queue: CallQueue): void {
    this.#calls.hurry(queue)
  }

  /** Ends the running calls and drops everything that is kept. */
  stop(): void {
    this.#calls.stop()
    this.#agentsFolder.clear()
  }

  /** @throws KasError REF_NOT_FOUND if the commit does not exist */
  async #present(commit: CommitId, signal: AbortSignal | undefined): Promise<CommitId> {
    if (await this.#hasEntries(commit, signal)) return commit
    throw new KasError({ code: 'REF_NOT_FOUND', ref: commit })
  }

  /**
   * Checks that a commit exists. Gitaly also reports an absent file at a commit that it lacks.
   *
   * @throws KasError REPOSITORY_FAILED if it does not exist
   */
  async #assurePresent(commit: CommitId, signal: AbortSignal | undefined): Promise<void> {
    if (await this.#hasEntries(commit, signal)) return
    // a commit with an empty tree has no entries
    if ((await this.head(this.#calls.queue, signal)) === commit) return
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly does not have commit ${commit}` })
  }

  async #hasEntries(commit: CommitId, signal: AbortSignal | undefined): Promise<boolean> {
    const request = create(GetTreeEntriesRequestSchema, {
      repository: this.#calls.repository,
      revision: Buffer.from(commit),
      path: Buffer.from('.'),
      skipFlatPaths: true,
    })
    try {
      for await (const { entries } of this.#calls.call(CommitService.method.getTreeEntries, request, signal)) {
        if (entries.length > 0) return true
      }
      return false
    } catch (error) {
      if (isStatus(error, Code.NOT_FOUND) || isStatus(error, Code.INVALID_ARGUMENT)) return false
      throw failed('GetTreeEntries', error)
    }
  }
}

function tooMuchBelow(path: string, what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `${what} below ${path}` })
}

function checkFile(path: string, maxBytes: number, { type, mode, size }: TreeEntryResponse): void {
  if (type !== TreeEntryResponse_ObjectType.BLOB || (mode & fileTypeMask) === symbolicLink) {
    throw new KasError({ code: 'CONFIGURATION_INVALID', detail: `${path}: is not a file` })
  }
  if (size > BigInt(maxBytes)) throw largerThan(path, maxBytes, String(size))
}

function tooLarge(path: string, maxBytes: number, { message }: KasError): KasError {
  return largerThan(path, maxBytes, /object size \((\d+)\)/.exec(message)?.[1])
}

function largerThan(path: string, maxBytes: number, size: string | undefined): KasError {
  const detail = size ? `${path}: has ${size} bytes, more than ${maxBytes}` : `${path}: has more than ${maxBytes} bytes`
  return new KasError({ code: 'CONFIGURATION_INVALID', detail })
}
