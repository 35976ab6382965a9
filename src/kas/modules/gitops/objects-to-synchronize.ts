import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Deadline } from '../../../lib/deadline.ts'
import { KasError } from '../../../lib/errors.ts'
import type { GroupTurns } from '../../../lib/group-turns.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { Tracer } from '../../../lib/tracing/tracer.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { Gitops } from '../../../proto/gen/gitops_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import type { Agent } from '../../agent.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { Directory } from '../../directory/directory.ts'
import type { Pushes } from '../../repositories/local-pushes.ts'
import { type CommitId, isRefused, type Reading, type Repositories } from '../../repositories/repositories.ts'
import type { BlobLimits, Trees } from '../../repositories/tree.ts'
import { commitFiles } from './commit-files.ts'
import type { FileCache } from './file-cache.ts'
import type { FollowedCommits } from './followed-commits.ts'
import type { FollowedRefs } from './followed-refs.ts'
import { type Found, foundAt, isKnown } from './found-commit.ts'
import { type ObjectsRequest, readRequest } from './objects-request.ts'
import { ObjectsSender } from './objects-sender.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const getObjectsMethod = methodPath(Gitops.method.getObjectsToSynchronize)

export interface ObjectsToSynchronizeComponents {
  readonly directory: Pick<Directory, 'readableProject'>
  readonly repositories: Pick<Repositories, 'head' | 'seenAt' | 'lastPoll' | 'pollAndReport' | 'onMove'> &
    Pick<Trees, 'files' | 'blobs'>
  readonly pushes: Pick<Pushes, 'onPush'>
  readonly refs: Pick<FollowedRefs, 'follow'>
  readonly commits: Pick<FollowedCommits, 'follow'>
  /**
   * turns to read a round's files, by configuration project and agent; a turn lasts until the agent has taken the files
   */
  readonly turns: Pick<GroupTurns<bigint, AgentId>, 'take' | 'isContended'>
  readonly cache: Pick<FileCache, 'contents'>
  /** called after a round was sent */
  readonly sent: () => void
  readonly tracer: Pick<Tracer, 'current'>
  readonly clock: Clock
  readonly log: Logger
}

export interface ObjectsToSynchronizeOptions extends BlobLimits {
  /** upstream's agent.gitops.poll_period: the longest that an invalid token goes unnoticed, in ms */
  readonly pollMs: number
  /** upstream's agent.gitops.max_number_of_paths and max_number_of_files */
  readonly maxPaths: number
  readonly maxFiles: number
  /** from one failed poll to the next, in ms; doubles up to the last */
  readonly retryMs?: readonly [first: number, last: number]
  /** the longest that reading the files of a round may take, in ms */
  readonly maxReadMs?: number
  /** the longest that an agent may take no byte of a round, in ms */
  readonly maxStallMs?: number
  /** the lowest average rate at which an agent takes a round, pauses aside */
  readonly minBytesPerSecond?: number
  /** the same while other rounds wait for a turn */
  readonly minContendedBytesPerSecond?: number
}

const defaults = {
  retryMs: [10_000, 300_000] as readonly [number, number],
  maxReadMs: 120_000,
  maxStallMs: 20_000,
  minBytesPerSecond: 64 * 1024, // the largest round of the defaults within 5 minutes
  minContendedBytesPerSecond: 512 * 1024, // the same within 40 seconds
}

/** Pause in ms after each ms or so of work for an agent that has spent its budget; meanwhile other rounds wait. */
const restMs = 10

/** Bytes sent per unit of the agent's budget: 0.1 ms. */
const bytesOfUnit = 16 * 1024

/**
 * Sends an agent the files of a project at a commit that it does not have: header, files, trailer. Waits until there is
 * such a commit, and ends after it.
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

/** One running stream. */
class ObjectsStream {
  readonly #components: ObjectsToSynchronizeComponents
  readonly #options: ObjectsToSynchronizeOptions & typeof defaults
  readonly #call: AgentCall
  readonly #question: ObjectsRequest
  #changed = Promise.withResolvers<void>()
  #reading: Reading | undefined
  #unfollow = () => {}
  readonly #commits: ReturnType<FollowedCommits['follow']>
  readonly #beganAt: number
  /** time of the newest push that this stream has seen, by the clock */
  #pushedAt: number | undefined
  #failures = 0

  constructor(
    components: ObjectsToSynchronizeComponents,
    options: ObjectsToSynchronizeOptions & typeof defaults,
    { call, question }: { call: AgentCall; question: ObjectsRequest },
  ) {
    this.#components = components
    this.#options = options
    this.#call = call
    this.#question = question
    this.#beganAt = components.clock.now()
    this.#commits = components.commits.follow(call.agent.id, question)
  }

  async run(): Promise<void> {
    const { signal, retired } = this.#call
    const { clock, pushes } = this.#components
    let isSent = false
    const wake = () => this.#changed.resolve()
    const ended = linkedController(signal, retired)
    const detachDirectory = this.#call.onDirectoryChange(wake)
    // only for the age of the commit; `onMove` wakes the stream
    const detachPushes = pushes.onPush(({ projectId }) => {
      if (projectId === this.#reading?.project.id) this.#pushedAt = clock.now()
    })
    try {
      for (;;) {
        this.#changed = Promise.withResolvers() // first, so that no change is missed
        isSent = await this.#poll(ended.signal)
        if (isSent) return
        const cancel = clock.after(this.#pauseMs(), wake)
        await abortable(this.#changed.promise, ended.signal).finally(cancel)
      }
    } catch (error) {
      if (!retired.aborted || signal.aborted) throw error
    } finally {
      this.#commits.end(isSent)
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

  /** @returns true if a round was sent */
  async #poll(signal: AbortSignal): Promise<boolean> {
    await abortable(this.#call.stillValid(), signal)
    try {
      const found = await this.#newCommit(signal)
      if (!found) {
        this.#failures = 0
        this.#commits.taken()
        return false
      }
      this.#commits.found(found.commit)
      return await this.#round(found, this.#call.signal) // also while the connection retires: half a round is useless
    } catch (error) {
      const { code } = KasError.from(error)
      if (isRefused(error) || (code !== 'DIRECTORY_UNAVAILABLE' && code !== 'REPOSITORY_FAILED')) throw error
      this.#failures += 1
      this.#commits.failed(KasError.from(error))
      this.#components.log.debug({ ...this.#fields(), error }, 'GitOps: repository poll failed')
      return false
    }
  }

  /**
   * Returns a commit that the agent lacks; `undefined`: there is none, or the repository has been empty so far.
   *
   * @throws KasError REF_NOT_FOUND
   */
  async #newCommit(signal: AbortSignal): Promise<Found | undefined> {
    const { repositories } = this.#components
    const { commit: known } = this.#question
    const reading = this.#follow(await this.#project(signal))
    const read = async () => foundAt(repositories, reading, await repositories.head(reading, signal))
    let found = await read()
    if (known !== '' && !isKnown(this.#question, found) && !this.#isSeenSince(reading)) {
      // another replica may have sent a newer commit than this one has polled: older files would undo it
      await abortable(repositories.pollAndReport(reading.project.id), signal)
      found = await read()
    }
    // a repository that was emptied has lost the ref; a repository that never had one is waited for
    if (!found && known !== '') throw new KasError({ code: 'REF_NOT_FOUND', ref: reading.ref ?? 'HEAD' })
    return isKnown(this.#question, found) ? undefined : found
  }

  /** @throws KasError PROJECT_NOT_READABLE, and as `readableProject` */
  async #project(signal: AbortSignal): Promise<Agent['project']> {
    const { project: wanted } = this.#question
    const project = await abortable(
      this.#components.directory.readableProject(this.#call.token, wanted, signal),
      signal,
    )
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
    const released = refs.follow(reading)
    const wake = () => this.#changed.resolve()
    try {
      this.#unfollow = repositories.onMove(reading, wake, { pollMs: this.#options.pollMs, released })
    } catch (error) {
      released()
      throw error
    }
    this.#reading = reading
    this.#commits.reads(reading)
    return reading
  }

  /** @returns true if the round was sent */
  async #round({ reading, commit, branch }: Found, signal: AbortSignal): Promise<boolean> {
    const { repositories, cache, turns, clock, log, sent } = this.#components
    const { choice, known } = this.#question
    const { maxFiles, maxReadMs } = this.#options
    const end = await this.#turn(signal)
    const detail = `reading took longer than ${maxReadMs} ms`
    const reason = () => new KasError({ code: 'REPOSITORY_FAILED', detail })
    const bounded = new Deadline({ ms: maxReadMs, clock, signals: [signal], reason })
    try {
      if (!(await this.#mayStillRead(reading, bounded.signal))) return false
      const pay = (units: number) => this.#pay(units)
      const of = { repositories, reading, commit, choice, maxFiles, pay, signal: bounded.signal }
      const { visited, files, leftOut } = await commitFiles(of)
      const missing = files.flatMap(({ file }) => (known.has(file.blob) ? [] : [file]))
      const contents = await cache.contents(missing, {
        projectId: reading.project.id,
        limits: this.#options,
        read: (rest, limits) => repositories.blobs(reading, commit, rest, limits, bounded.signal),
      })
      await this.#pay(sizeOf(contents) / bytesOfUnit)
      bounded.end()
      const sender = new ObjectsSender(
        { call: this.#call, clock, isContended: () => turns.isContended, signal },
        this.#options,
      )
      await sender.header({ ...this.#header(reading, commit), leftOut: [...leftOut], branch })
      for (const { path, file } of files) await sender.file({ path, blob: file.blob }, contents.get(file))
      await sender.trailer()
      sent()
      const counts = { visited, sent: files.length, known: files.length - missing.length }
      log.debug({ ...this.#fields(), commit_id: commit, ...counts }, 'GitOps: fetched files')
      return true
    } finally {
      bounded.end()
      end()
    }
  }

  /**
   * Waits for a turn and until the agent has paid for earlier rounds; meanwhile the agent keeps no turn.
   *
   * @returns the function that ends the turn
   */
  async #turn(signal: AbortSignal): Promise<() => void> {
    const { id, project } = this.#call.agent
    for (;;) {
      const end = await this.#components.turns.take(project.id, id, signal)
      const owed = this.#call.spend(0)
      if (!owed) return end
      end()
      await owed
    }
  }

  /** Charges the agent. A long round leaves the event loop to others; the rest is paid before the next round. */
  #pay(units: number): Promise<void> | undefined {
    return this.#call.spend(units, restMs)
  }

  /**
   * Checks the agent's permission again at its turn: the wait may have been long.
   *
   * @returns false: the name belongs to another project by now
   * @throws KasError as a poll does
   */
  async #mayStillRead({ project }: Reading, signal: AbortSignal): Promise<boolean> {
    await abortable(this.#call.stillValid(), signal)
    return (await this.#project(signal)).id === project.id
  }

  #header({ project }: Reading, commitId: CommitId) {
    const { clock, tracer } = this.#components
    const age = this.#pushedAt === undefined ? 0 : ageMs(this.#pushedAt, clock.now())
    return { commitId, projectId: project.id, ageMs: age, traceparent: tracer.current?.traceparent?.[0] ?? '' }
  }

  #fields() {
    const { agent } = this.#call
    return { agent_id: String(agent.id), project_id: String(this.#reading?.project.id ?? '') }
  }
}

function sizeOf(contents: ReadonlyMap<unknown, Uint8Array>): number {
  return contents.values().reduce((sum, { length }) => sum + length, 0)
}
