import {
  create,
  type DescMessage,
  type DescMethodServerStreaming,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { Code, goCodeName, KasError } from '../../../lib/errors.ts'
import { linkedController } from '../../../lib/signals.ts'
import {
  CommitService,
  GetTreeEntriesRequestSchema,
  InfoRefsRequestSchema,
  type Repository,
  RepositorySchema,
  SmartHTTPService,
  TreeEntry_EntryType,
  TreeEntryRequestSchema,
  type TreeEntryResponse,
  TreeEntryResponse_ObjectType,
} from '../../../proto/gen/gitaly_pb.ts'
import { decodeMessage, methodPath } from '../../../proto/unary.ts'
import type { CommitId } from '../repositories.ts'
import type { CallQueue, CallTurn } from './call-limit.ts'
import { gitalyMetadata } from './gitaly-authorization.ts'
import type { GitalyCoordinates } from './gitaly-coordinates.ts'
import type { GitalyServer } from './gitaly-server.ts'
import { ReferenceDiscovery } from './reference-discovery.ts'

export interface GitalyRepositoryComponents {
  /** of the address that the coordinates name; asked for each call, for it may have been forgotten */
  readonly server: () => GitalyServer
  /** what GitLab wants sent along now */
  readonly features: () => GitalyCoordinates['features']
  readonly clock: Clock
}

export interface GitalyRepositoryOptions {
  /** an advertisement of more refs is not read further, in bytes */
  readonly maxRefsBytes?: number
  /** past the branch the rest is read up to so many bytes: Gitaly keeps a whole answer for the next question */
  readonly maxReadOnBytes?: number
  /** below one path; more are refused */
  readonly maxFiles?: number
}

const defaults = { maxRefsBytes: 64 << 20, maxReadOnBytes: 4 << 20, maxFiles: 50_000 }

/** of a git tree's entry: type and permissions */
const fileTypeMask = 0o170000
const symbolicLink = 0o120000

/** Gitaly's words are shown so far. */
const maxToldChars = 200

/** One repository, as Gitaly has it (doc/reference/tunnel-protocol.md 1.20). */
export class GitalyRepository {
  readonly #coordinates: GitalyCoordinates
  readonly #repository: Repository
  readonly #components: GitalyRepositoryComponents
  readonly #options: Required<GitalyRepositoryOptions>
  readonly #stopped = new AbortController()
  /** of the newest poll: what it found is read in the same */
  #queue: CallQueue = 'pushes'
  /** of calls that run */
  readonly #turns = new Set<CallTurn>()

  constructor(
    coordinates: GitalyCoordinates,
    components: GitalyRepositoryComponents,
    options: GitalyRepositoryOptions = {},
  ) {
    this.#coordinates = coordinates
    const { repository } = coordinates
    const gitAlternateObjectDirectories = [...repository.gitAlternateObjectDirectories]
    this.#repository = create(RepositorySchema, { ...repository, gitAlternateObjectDirectories })
    this.#components = components
    this.#options = { ...defaults, ...options }
  }

  /**
   * Where the default branch stands now; `undefined`: the repository is empty.
   *
   * @throws KasError REF_NOT_FOUND, REPOSITORY_FAILED, SHUTTING_DOWN
   */
  async head(queue: CallQueue, signal?: AbortSignal): Promise<CommitId | undefined> {
    this.#queue = queue
    const discovery = new ReferenceDiscovery(this.#coordinates.defaultBranch)
    const request = create(InfoRefsRequestSchema, { repository: this.#repository })
    let bytes = 0
    try {
      for await (const { data } of this.#call(SmartHTTPService.method.infoRefsUploadPack, request, signal)) {
        if (!discovery.isFound) discovery.take(data)
        bytes += data.length
        if (discovery.isFound ? bytes > this.#options.maxReadOnBytes : bytes > this.#options.maxRefsBytes) break
      }
    } catch (error) {
      if (!discovery.isFound) throw failed('InfoRefsUploadPack', error) // else the rest was for Gitaly's sake
    }
    if (bytes > this.#options.maxRefsBytes && !discovery.isFound) {
      const detail = `Gitaly tells more than ${this.#options.maxRefsBytes} bytes of refs`
      throw new KasError({ code: 'REPOSITORY_FAILED', detail })
    }
    return discovery.end()
  }

  /**
   * A file at a commit; `undefined` if it is absent there.
   *
   * @throws KasError CONFIGURATION_INVALID if it is larger than `maxBytes` or no file, REPOSITORY_FAILED, SHUTTING_DOWN
   */
  async file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined> {
    const request = create(TreeEntryRequestSchema, {
      repository: this.#repository,
      revision: Buffer.from(commit),
      path: Buffer.from(path),
      maxSize: BigInt(maxBytes),
    })
    const parts: Uint8Array[] = []
    let first: TreeEntryResponse | undefined
    let bytes = 0
    try {
      for await (const message of this.#call(CommitService.method.treeEntry, request, signal)) {
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
   * The paths of all files below `path` at the head of the default branch, in git's order; none if it is not there, or
   * the branch is not.
   *
   * @throws KasError STATUS for what Gitaly calls an invalid argument, else REPOSITORY_FAILED
   */
  async files(path: string, signal: AbortSignal): Promise<string[]> {
    const { defaultBranch } = this.#coordinates
    const request = create(GetTreeEntriesRequestSchema, {
      repository: this.#repository,
      revision: Buffer.from(defaultBranch === '' ? 'HEAD' : `refs/heads/${defaultBranch}`),
      path: Buffer.from(path),
      recursive: true,
      skipFlatPaths: true,
    })
    const files: string[] = []
    try {
      for await (const { entries } of this.#call(CommitService.method.getTreeEntries, request, signal)) {
        for (const { type, path: at } of entries) {
          if (type === TreeEntry_EntryType.BLOB) files.push(Buffer.from(at).toString())
        }
        if (files.length > this.#options.maxFiles) throw tooManyFiles(path, this.#options.maxFiles)
      }
    } catch (error) {
      if (isStatus(error, Code.NOT_FOUND)) return []
      throw isStatus(error, Code.INVALID_ARGUMENT) ? error : failed('GetTreeEntries', error)
    }
    return files
  }

  /** Somebody waits for what is asked now. */
  hurry(): void {
    this.#queue = 'pushes'
    for (const turn of this.#turns) this.#components.server().hurry(turn)
  }

  /** Ends the calls that run. */
  stop(): void {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
  }

  /**
   * Gitaly finds no file at a commit that it lacks either: an absent file is believed only where the commit is there.
   *
   * @throws KasError REPOSITORY_FAILED
   */
  async #assurePresent(commit: CommitId, signal: AbortSignal): Promise<void> {
    if (await this.#hasEntries(commit, signal)) return
    // the tree may be empty
    if ((await this.head(this.#queue, signal)) === commit) return
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly does not have commit ${commit}` })
  }

  async #hasEntries(commit: CommitId, signal: AbortSignal): Promise<boolean> {
    const request = create(GetTreeEntriesRequestSchema, {
      repository: this.#repository,
      revision: Buffer.from(commit),
      path: Buffer.from('.'),
      skipFlatPaths: true,
    })
    try {
      for await (const { entries } of this.#call(CommitService.method.getTreeEntries, request, signal)) {
        if (entries.length > 0) return true
      }
      return false
    } catch (error) {
      if (isStatus(error, Code.NOT_FOUND) || isStatus(error, Code.INVALID_ARGUMENT)) return false
      throw failed('GetTreeEntries', error)
    }
  }

  async *#call<Method extends DescMethodServerStreaming>(
    method: Method,
    request: MessageShape<Method['input']>,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<MessageShape<Method['output']>, void, void> {
    const { server, features, clock } = this.#components
    const { token } = this.#coordinates
    const call = {
      method: methodPath(method),
      request: toBinary(method.input, request),
      turn: { queue: this.#queue },
      metadata: () => gitalyMetadata({ token, features: features() }, clock.now()),
    }
    const ended = linkedController(this.#stopped.signal, signal)
    this.#turns.add(call.turn)
    try {
      for await (const message of server().call(call, ended.signal))
        yield decoded<Method['output']>(method.output, message)
    } finally {
      this.#turns.delete(call.turn)
      ended.dispose()
    }
  }
}

function tooManyFiles(path: string, max: number): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `more than ${max} files below ${path}` })
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

function isStatus(error: unknown, grpc: number): error is KasError {
  return error instanceof KasError && error.spec.code === 'STATUS' && error.spec.grpc === grpc
}

/** Gitaly's status in words of ours; what is ours already stays. */
function failed(method: string, error: unknown): unknown {
  if (!(error instanceof KasError) || error.spec.code !== 'STATUS') return error
  const { grpc, message } = error.spec
  const detail = `Gitaly's ${method}: ${goCodeName(grpc) ?? grpc}: ${message.slice(0, maxToldChars)}`
  return new KasError({ code: 'REPOSITORY_FAILED', detail }, { cause: error })
}

function decoded<T extends DescMessage>(schema: T, bytes: Uint8Array): MessageShape<T> {
  try {
    return decodeMessage(schema, bytes)
  } catch (cause) {
    const detail = `Gitaly sent what is no ${schema.typeName}`
    throw new KasError({ code: 'REPOSITORY_FAILED', detail }, { cause })
  }
}
