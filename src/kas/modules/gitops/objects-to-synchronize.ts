import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import {
  Gitops,
  type GitRefCF,
  ObjectsToSynchronizeRequestSchema,
  type ObjectsToSynchronizeResponse,
  ObjectsToSynchronizeResponseSchema,
} from '../../../proto/gen/gitops_pb.ts'
import { decodeMessage, methodPath } from '../../../proto/unary.ts'
import { countField } from '../../../proto/wire/wire.ts'
import type { Agent } from '../../agent.ts'
import type { Directory } from '../../directory/directory.ts'
import type { AgentCall } from '../../module.ts'
import type { Pushes } from '../../repositories/local-pushes.ts'
import { type CommitId, isCommitId, type Reading, type Repositories } from '../../repositories/repositories.ts'
import type { BlobLimits, TreeFile, Trees } from '../../repositories/tree.ts'
import type { FollowedRefs } from './followed-refs.ts'
import { checkPathCount, chosenFiles, type FileChoice, readPaths } from './round-files.ts'
import type { RoundTurns } from './round-turns.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const getObjectsMethod = methodPath(Gitops.method.getObjectsToSynchronize)

export interface ObjectsToSynchronizeComponents {
  readonly readableProject: NonNullable<Directory['readableProject']>
  readonly repositories: Pick<Repositories, 'head' | 'seenAt' | 'refresh' | 'onMove'> & Trees
  readonly pushes: Pick<Pushes, 'onPush'>
  readonly refs: Pick<FollowedRefs, 'follow'>
  readonly turns: Pick<RoundTurns, 'take'>
  /** a round was sent */
  readonly sent: () => void
  readonly tracer: Pick<Tracer, 'current'>
  readonly clock: Clock
  readonly log: Logger
}

export interface ObjectsToSynchronizeOptions extends BlobLimits {
  /** upstream's agent.gitops.poll_period: a void token goes unnoticed no longer than this, in ms */
  readonly pollMs: number
  /** upstream's agent.gitops.max_number_of_paths and max_number_of_files */
  readonly maxPaths: number
  readonly maxFiles: number
  /** from one look that failed to the next, doubled up to the last, in ms */
  readonly retryMs?: readonly [first: number, last: number]
  /** the longest that reading the files of a round may take, in ms */
  readonly maxReadMs?: number
  /** the longest that an agent may take for a round that was read, and for any part of it, in ms */
  readonly maxSendMs?: number
  readonly maxStallMs?: number
}

const defaults = {
  retryMs: [10_000, 300_000] as readonly [number, number],
  maxReadMs: 120_000,
  maxSendMs: 300_000,
  maxStallMs: 20_000,
}

/** Of a file, in one message: upstream's. */
const chunkBytes = 128 * 1024

/** More than a round of the highest limit has files; those beyond the limit are sent again. */
const maxKnownBlobs = 10_000

/** A project's full path, in characters. */
const maxProjectLength = 1024

/** What git takes for the name of a ref, without its first part. */
const refName = /^(?![/.-])(?!.*(?:\.\.|\/\.|\/\/|@\{))[^\p{Cc} ~^:?*[\\]{1,250}(?<![/.])$/u

/**
 * Sends an agent the files of a project at a commit that it does not have, once there is one, and ends: header, files,
 * trailer.
 *
 * @see doc/reference/tunnel-protocol.md 1.10
 */
export function objectsToSynchronize(
  components: ObjectsToSynchronizeComponents,
  options: ObjectsToSynchronizeOptions,
): (call: AgentCall) => Promise<void> {
  return async (call) => {
    const question = await readRequest(call, options)
    call.sendMetadata({})
    await new ObjectsStream(components, { ...defaults, ...options }, { call, question }).run()
  }
}

interface Question {
  /** full path, or number */
  readonly project: string
  readonly ref: string | undefined
  /** the agent has it */
  readonly commit: string
  readonly choice: FileChoice
  /** object ids, in hex */
  readonly known: ReadonlySet<string>
}

async function readRequest(call: AgentCall, limits: ObjectsToSynchronizeOptions): Promise<Question> {
  for await (const bytes of call.messages) {
    const { paths, knownBlob } = ObjectsToSynchronizeRequestSchema.field // counted before anything is built of them
    checkPathCount(countField(bytes, paths.number), limits.maxPaths)
    if (countField(bytes, knownBlob.number) > maxKnownBlobs) throw invalid(`more than ${maxKnownBlobs} known blobs`)
    const request = decodeMessage(ObjectsToSynchronizeRequestSchema, bytes)
    if (request.projectId === '') throw invalid('project_id is required')
    if (request.projectId.length > maxProjectLength) throw invalid('project_id is too long')
    return {
      project: request.projectId,
      ref: refOf(request.ref),
      commit: request.commitId,
      choice: readPaths(request.paths),
      // what is beyond, as of a limit that was higher, is sent again
      known: new Set(request.knownBlob.slice(0, limits.maxFiles).map((id) => Buffer.from(id).toString('hex'))),
    }
  }
  throw invalid('no request message')
}

/** @throws KasError REF_NOT_FOUND for what can be none */
function refOf(given: GitRefCF | undefined): string | undefined {
  const { ref } = given ?? {}
  if (!ref?.case || ref.value === '') return undefined
  if (ref.case === 'commit') {
    if (isCommitId(ref.value)) return ref.value
  } else if (refName.test(ref.value)) return `refs/${ref.case === 'tag' ? 'tags' : 'heads'}/${ref.value}`
  throw new KasError({ code: 'REF_NOT_FOUND', ref: ref.value.slice(0, 250) })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

/** One running stream. */
class ObjectsStream {
  readonly #components: ObjectsToSynchronizeComponents
  readonly #options: ObjectsToSynchronizeOptions & typeof defaults
  readonly #call: AgentCall
  readonly #question: Question
  #changed = Promise.withResolvers<void>()
  #reading: Reading | undefined
  #unfollow = () => {}
  readonly #beganAt: number
  /** of the newest push that this stream has seen, by the clock */
  #pushedAt: number | undefined
  #failures = 0

  constructor(
    components: ObjectsToSynchronizeComponents,
    options: ObjectsToSynchronizeOptions & typeof defaults,
    { call, question }: { call: AgentCall; question: Question },
  ) {
    this.#components = components
    this.#options = options
    this.#call = call
    this.#question = question
    this.#beganAt = components.clock.now()
  }

  async run(): Promise<void> {
    const { signal, retired } = this.#call
    const { clock, pushes } = this.#components
    const wake = () => this.#changed.resolve()
    const ended = linkedController(signal, retired)
    const detachDirectory = this.#call.onDirectoryChange(wake)
    const detachPushes = pushes.onPush(({ projectId }) => {
      if (projectId === this.#reading?.project.id) this.#pushedAt = clock.now()
    })
    try {
      for (;;) {
        this.#changed = Promise.withResolvers() // first, so that no change is missed
        if (await this.#look(ended.signal)) return
        const cancel = clock.after(this.#pauseMs(), wake)
        await abortable(this.#changed.promise, ended.signal).finally(cancel)
      }
    } catch (error) {
      if (!retired.aborted || signal.aborted) throw error
    } finally {
      this.#unfollow()
      detachPushes()
      detachDirectory()
      ended.dispose()
    }
  }

  #pauseMs(): number {
    const { retryMs, pollMs } = this.#options
    const [first, last] = retryMs
    return this.#failures === 0 ? pollMs : Math.min(first * 2 ** Math.min(this.#failures - 1, 16), last)
  }

  /** @returns whether a round was sent */
  async #look(signal: AbortSignal): Promise<boolean> {
    await abortable(this.#call.stillValid(), signal)
    try {
      const found = await this.#newCommit(signal)
      if (!found) {
        this.#failures = 0
        return false
      }
      return await this.#round(found, this.#call.signal) // also while the connection retires: half a round is none
    } catch (error) {
      const { code } = KasError.from(error)
      if (code !== 'DIRECTORY_UNAVAILABLE' && code !== 'REPOSITORY_FAILED') throw error
      this.#failures += 1
      this.#components.log.debug({ ...this.#fields(), error }, 'GitOps: repository poll failed')
      return false
    }
  }

  /** `undefined`: the agent has it, or the repository is empty. */
  async #newCommit(signal: AbortSignal): Promise<{ reading: Reading; commit: CommitId } | undefined> {
    const { repositories } = this.#components
    const { commit: known } = this.#question
    const reading = this.#follow(await this.#project(signal))
    let commit = await repositories.head(reading, signal)
    if (known !== '' && commit !== known && !this.#isSeenSince(reading)) {
      // another replica may have sent what is newer than what was seen here: older files would undo it
      await abortable(repositories.refresh(reading.project.id), signal)
      commit = await repositories.head(reading, signal)
    }
    return commit === undefined || commit === known ? undefined : { reading, commit }
  }

  /** @throws KasError PROJECT_NOT_READABLE, and as `readableProject` */
  async #project(signal: AbortSignal): Promise<Agent['project']> {
    const { project: wanted } = this.#question
    const project = await abortable(this.#components.readableProject(this.#call.token, wanted, signal), signal)
    if (!project) throw new KasError({ code: 'PROJECT_NOT_READABLE', project: wanted })
    return project
  }

  #isSeenSince(reading: Reading): boolean {
    const seenAt = this.#components.repositories.seenAt(reading)
    return seenAt !== undefined && seenAt >= this.#beganAt
  }

  #follow(project: Agent['project']): Reading {
    if (this.#reading?.project.id === project.id) return this.#reading
    const { repositories, refs } = this.#components
    const { ref } = this.#question
    const reading = { id: this.#call.agent.id, project, ref }
    this.#unfollow()
    this.#unfollow = () => {}
    const leave = refs.follow(reading)
    this.#unfollow = leave
    const detach = repositories.onMove(reading, () => this.#changed.resolve(), this.#options.pollMs)
    this.#unfollow = () => {
      detach()
      leave()
    }
    this.#reading = reading
    return reading
  }

  /** @returns whether it was sent */
  async #round({ reading, commit }: { reading: Reading; commit: CommitId }, signal: AbortSignal): Promise<boolean> {
    const { repositories, turns, clock, log, sent } = this.#components
    const { choice, known } = this.#question
    const { maxFiles, maxReadMs, maxSendMs } = this.#options
    const end = await turns.take(this.#call.agent.id, signal)
    const bounded = linkedController(signal)
    const detail = `reading took longer than ${maxReadMs} ms`
    let cancel = clock.after(maxReadMs, () => bounded.abort(new KasError({ code: 'REPOSITORY_FAILED', detail })))
    try {
      if (!(await this.#mayStillRead(reading, bounded.signal))) return false
      const tree = await repositories.files(reading, commit, choice.folder, bounded.signal)
      const files = await chosenFiles(choice, tree, maxFiles)
      const missing = files.filter(({ blob }) => !known.has(blob))
      const blobs = await repositories.blobs(reading, commit, missing, this.#options, bounded.signal)
      const contents = new Map(missing.map((file, i) => [file, blobs[i] as Uint8Array]))
      cancel()
      cancel = clock.after(maxSendMs, () => bounded.abort(new KasError({ code: 'DEADLINE_EXCEEDED' })))
      await this.#send({ case: 'header', value: this.#header(reading, commit) }, bounded.signal)
      for (const file of files) await this.#sendFile(file, contents.get(file), bounded.signal)
      await this.#send({ case: 'trailer', value: {} }, bounded.signal)
      sent()
      const counts = { visited: tree.length, sent: files.length, known: files.length - missing.length }
      log.debug({ ...this.#fields(), commit_id: commit, ...counts }, 'GitOps: fetched files')
      return true
    } finally {
      cancel()
      bounded.dispose()
      end()
    }
  }

  /**
   * Asked again when the turn has come: the wait may have been long.
   *
   * @returns false: the name is another project's by now
   * @throws KasError as a look does
   */
  async #mayStillRead({ project }: Reading, signal: AbortSignal): Promise<boolean> {
    await abortable(this.#call.stillValid(), signal)
    return (await this.#project(signal)).id === project.id
  }

  #header({ project }: Reading, commitId: CommitId) {
    const { clock, tracer } = this.#components
    const ageMs = this.#pushedAt === undefined ? 0 : Math.max(0, Math.round(clock.now() - this.#pushedAt))
    return { commitId, projectId: project.id, ageMs, traceparent: tracer.current?.traceparent?.[0] ?? '' }
  }

  /** A file is one message at least. */
  async #sendFile({ path, blob }: TreeFile, content: Uint8Array | undefined, signal: AbortSignal): Promise<void> {
    const first = { source: path, blob: Buffer.from(blob, 'hex') }
    if (!content) return await this.#send({ case: 'object', value: { ...first, known: true } }, signal)
    let at = 0
    do {
      const data = content.subarray(at, at + chunkBytes)
      await this.#send({ case: 'object', value: at === 0 ? { ...first, data } : { source: path, data } }, signal)
      at += chunkBytes
    } while (at < content.length)
  }

  async #send(message: MessageOf, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const bytes = toBinary(ObjectsToSynchronizeResponseSchema, create(ObjectsToSynchronizeResponseSchema, { message }))
    const room = this.#call.send(bytes)
    if (room) await this.#taken(room, signal)
  }

  /** @throws KasError DEADLINE_EXCEEDED if the agent takes nothing for too long */
  async #taken(room: Promise<void>, signal: AbortSignal): Promise<void> {
    const waiting = linkedController(signal)
    const stalled = () => waiting.abort(new KasError({ code: 'DEADLINE_EXCEEDED' }))
    const cancel = this.#components.clock.after(this.#options.maxStallMs, stalled)
    try {
      await abortable(room, waiting.signal)
    } finally {
      cancel()
      waiting.dispose()
    }
  }

  #fields() {
    const { agent } = this.#call
    return { agent_id: String(agent.id), project_id: String(this.#reading?.project.id ?? '') }
  }
}

type MessageOf = Exclude<
  Parameters<typeof create<typeof ObjectsToSynchronizeResponseSchema>>[1],
  ObjectsToSynchronizeResponse | undefined
>['message'] & {}
