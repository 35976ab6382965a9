import { create, type MessageShape, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import {
  Gitops,
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
  PathCFSchema,
} from '../../../../proto/gen/gitops_pb.ts'
import { maxBranchLength, maxFileBytes, maxFiles, maxRoundBytes } from '../../../../proto/gitops/limits.ts'
import type { ClientStream } from '../../../../proto/grpc/client-session.ts'
import { methodPath } from '../../../../proto/unary.ts'
import type { KasConnections } from '../../../tunnels/kas-connections.ts'
import { type KeptStream, keepOpen } from '../../../tunnels/keep-open.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Arrival, KeptFiles, NamedFile } from './kept-files.ts'

export const objectsMethod = methodPath(Gitops.method.getObjectsToSynchronize)

/** Time after which the request counts as accepted: kas refuses sooner. ms */
const acceptedMs = 10_000

/** Limit of texts about links that kas left out: 20 links, and the number of the others. */
const maxLeftOut = 21
/** Limit of such a text; a longer one is cut. */
const maxLeftOutLength = 500

/** All files of a source at one commit. */
export interface ObjectSet {
  readonly commit: string
  /** number of the project */
  readonly projectId: bigint
  readonly files: readonly NamedFile[]
  /** time of the push that the set answers, by agentk's clock; undefined: no push. ms */
  readonly pushedAt: number | undefined
  /** of the span with which kas sent it; empty: kas traces nothing */
  readonly traceparent: string
  /** chosen links and submodules that are not among `files`, each with the reason */
  readonly leftOut: readonly string[]
  /** project's default branch, if the source follows it; empty: not known */
  readonly branch: string
}

export interface ObjectsStreamComponents {
  readonly kas: Pick<KasConnections, 'session' | 'metadata'>
  /** files of all sources */
  readonly files: Pick<KeptFiles, 'arrival' | 'release'>
  readonly onSet: (set: ObjectSet) => void
  /** kas has refused, or has sent an invalid set: agentk asks again */
  readonly onProblem: (error: KasError) => void
  /** kas has accepted the request: sets will be reported */
  readonly onFollowing: () => void
  readonly clock: Clock
  readonly random: () => number
}

export type ObjectsRequest = Pick<SourceOptions, 'project' | 'paths' | 'ref'>

/**
 * Follows a source's files until the signal aborts, and reports complete sets alone. The stream is opened again
 * whenever it ends, with the commit of the last complete set.
 */
export async function followObjects(
  components: ObjectsStreamComponents,
  request: ObjectsRequest,
  signal: AbortSignal,
): Promise<void> {
  const source = {}
  const { onSet, onProblem } = components
  let last: ObjectSet | undefined
  const kept: KeptStream = {
    method: objectsMethod,
    async read(stream) {
      const set = await readSet(components, stream, { request, last, source })
      if (!set) return 'ended'
      last = set
      onSet(set)
      return 'served'
    },
    refused: onProblem,
    failed: (error) => onProblem(KasError.from(error)),
  }
  try {
    await keepOpen(components, kept, signal)
  } finally {
    components.files.release(source)
  }
}

interface Following {
  readonly request: ObjectsRequest
  readonly last: ObjectSet | undefined
  /** identity of the source in `KeptFiles` */
  readonly source: object
}

/** @returns undefined: the stream ended without a set. @throws KasError: the set is invalid */
async function readSet(
  { clock, files, onFollowing }: ObjectsStreamComponents,
  stream: ClientStream,
  { request, last, source }: Following,
): Promise<ObjectSet | undefined> {
  void stream.send(toBinary(ObjectsToSynchronizeRequestSchema, encoded(request, last)))
  stream.end()
  const reader = new SetReader(last, (projectId) => files.arrival(source, projectId), clock)
  const cancel = clock.after(acceptedMs, onFollowing)
  try {
    for await (const message of stream.messages) {
      reader.add(decodeMessage(ObjectsToSynchronizeResponseSchema, message))
    }
  } finally {
    cancel()
    reader.end()
  }
  const { error } = await stream.done
  return error ? undefined : reader.set
}

function encoded(
  { project, paths, ref }: ObjectsRequest,
  last: ObjectSet | undefined,
): MessageShape<typeof ObjectsToSynchronizeRequestSchema> {
  const blobs = new Set((last?.files ?? []).map(({ blob }) => blob).filter((blob) => blob !== ''))
  return create(ObjectsToSynchronizeRequestSchema, {
    projectId: project,
    commitId: last?.commit ?? '',
    paths: paths.map(({ file, glob }) =>
      create(PathCFSchema, {
        path: file === undefined ? { case: 'glob', value: glob ?? '' } : { case: 'file', value: file },
      }),
    ),
    ...(ref && { ref: { ref: refOf(ref) } }),
    knownBranch: last?.branch ?? '',
    knownBlob: [...blobs].map((blob) => Buffer.from(blob, 'hex')),
  })
}

function refOf({ tag, branch, commit }: NonNullable<ObjectsRequest['ref']>) {
  if (tag !== undefined) return { case: 'tag', value: tag } as const
  if (branch !== undefined) return { case: 'branch', value: branch } as const
  return { case: 'commit', value: commit ?? '' } as const
}

interface Piece {
  readonly source: string
  readonly data: Uint8Array
  readonly blob: Uint8Array
  readonly known: boolean
}

interface FileBeingRead {
  readonly path: string
  readonly blob: string
  pieces: Uint8Array[]
  bytes: number
}

/** Reads one set. Its messages have to come in order: header, pieces of files, trailer. */
class SetReader {
  readonly #known: ReadonlyMap<string, Uint8Array>
  readonly #begin: (projectId: bigint) => Arrival
  readonly #clock: Clock
  readonly #files: NamedFile[] = []
  #last: FileBeingRead | undefined
  #header: Omit<ObjectSet, 'files'> | undefined
  #arrival: Arrival | undefined
  #bytes = 0
  #isWhole = false

  constructor(last: ObjectSet | undefined, begin: (projectId: bigint) => Arrival, clock: Clock) {
    this.#begin = begin
    this.#clock = clock
    this.#known = new Map((last?.files ?? []).map(({ blob, data }) => [blob, data]))
  }

  /** undefined: the set is not complete. */
  get set(): ObjectSet | undefined {
    return this.#isWhole && this.#header ? { ...this.#header, files: this.#files } : undefined
  }

  /** Ends the set: files that are not kept are removed. */
  end(): void {
    this.#arrival?.leave()
  }

  /** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE */
  add({ message }: MessageShape<typeof ObjectsToSynchronizeResponseSchema>): void {
    const isInOrder = message.case === 'header' ? !this.#header : this.#header && !this.#isWhole
    if (!isInOrder || !message.case) throw invalid(`${message.case ?? 'nothing'} out of order`)
    if (message.case === 'header') {
      const { commitId: commit, projectId, ageMs, traceparent } = message.value
      const leftOut = message.value.leftOut.slice(0, maxLeftOut).map((text) => text.slice(0, maxLeftOutLength))
      const branch = message.value.branch.slice(0, maxBranchLength)
      if (commit === '') throw invalid('a header without a commit')
      const pushedAt = ageMs === 0 ? undefined : this.#clock.now() - ageMs
      this.#header = { commit, projectId, pushedAt, traceparent, leftOut, branch }
      this.#arrival = this.#begin(projectId)
    } else if (message.case === 'trailer') {
      this.#finishFile()
      this.#arrival?.keep()
      this.#isWhole = true
    } else this.#piece(message.value)
  }

  #piece({ source, data, blob, known }: Piece): void {
    if (this.#last?.path !== source) this.#next(source, Buffer.from(blob).toString('hex'))
    const file = this.#last as FileBeingRead
    const content = known ? this.#known.get(file.blob) : data
    if (!content) throw invalid(`${source} is taken for known, and is not`)
    file.bytes += content.length
    this.#bytes += content.length
    if (file.bytes > maxFileBytes) throw tooLarge(file.bytes, maxFileBytes)
    if (this.#bytes > maxRoundBytes) throw tooLarge(this.#bytes, maxRoundBytes)
    if (content.length > 0) file.pieces.push(content)
  }

  #next(path: string, blob: string): void {
    this.#finishFile()
    if (this.#files.length === maxFiles) throw invalid(`more than ${maxFiles} files`)
    this.#last = { path, blob, pieces: [], bytes: 0 }
  }

  /** Completes the current file before the next one, and removes its pieces. */
  #finishFile(): void {
    if (!this.#last || !this.#arrival) return
    const { path, blob, pieces } = this.#last
    this.#files.push({ path, blob, data: this.#arrival.add(blob, pieces) })
    this.#last = undefined
  }
}

function invalid(what: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `invalid server response: ${what}` })
}

function tooLarge(bytes: number, maxBytes: number): KasError {
  return new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes })
}
