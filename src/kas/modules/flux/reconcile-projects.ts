import { create, toBinary } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { LoopTurns } from '../../../lib/loop-turns.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  GitLabFlux,
  ReconcileProjectsRequestSchema,
  ReconcileProjectsResponseSchema,
} from '../../../proto/gen/flux_pb.ts'
import { hasFeature } from '../../../proto/placement.ts'
import { methodPath } from '../../../proto/unary.ts'
import { countField } from '../../../proto/wire/wire.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { Directory } from '../../directory/directory.ts'
import type { Usage } from '../../directory/usage.ts'
import type { FluxMetrics } from './flux-metrics.ts'
import type { RecentPush, RecentPushes } from './recent-pushes.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const reconcileProjectsMethod = methodPath(GitLabFlux.method.reconcileProjects)

export interface ReconcileProjectsComponents {
  readonly pushes: Pick<RecentPushes, 'onPush' | 'recent' | 'isRecent' | 'resend'>
  readonly directory: Pick<Directory, 'readsProject'>
  readonly usage: Pick<Usage, 'counter' | 'unique'>
  readonly metrics: FluxMetrics
  readonly log: Logger
  readonly clock: Clock
}

export interface ReconcileProjectsOptions {
  /** projects of one stream; a request for more is refused */
  readonly maxProjects?: number
  /** bytes of project paths over all streams of an agent (`path_bytes_of_agent`), each with its overhead */
  readonly maxPathBytesOfAgent?: number
  /** pushes of one stream that wait; beyond it, the newest push to a project replaces an older one */
  readonly maxPending?: number
  /** first and last pause while the directory is unreachable, in ms; doubled each time */
  readonly retryMs?: readonly [first: number, last: number]
}

const defaults = {
  maxProjects: 10_000,
  maxPathBytesOfAgent: 4 * 1024 * 1024,
  maxPending: 10,
  retryMs: [1000, 10_000] as readonly [number, number],
}

/** Long lists that are parsed at once: the longest takes the event loop 10 ms and more, so agents take turns. */
const listsPerTurn = 1
/** bytes of a list of some hundred projects, which needs no turn */
const shortListBytes = 16 * 1024
/** waiting lists (`waiting_project_lists`), of at most 1 MiB each, and 20 of one agent */
const maxWaitingLists = 200

/** bytes of a path's place in the set, beside its text and at least four bytes of framing */
const pathOverheadBytes = 60

/**
 * Time in ms before the end in which a notification may have been lost: an agent that leaves retires its connection.
 */
const unsureMs = 5000

/**
 * Notifies an agent of each push to the projects that it names, until the connection retires. It also gets pushes that
 * came while it was reconnecting.
 *
 * @see doc/reference/tunnel-protocol.md 1.9
 */
export function reconcileProjects(
  components: ReconcileProjectsComponents,
  options: ReconcileProjectsOptions = {},
): (call: AgentCall) => Promise<void> {
  const limits = { ...defaults, ...options }
  const { usage } = components
  const notification = usage.counter('flux_git_push_notifications_total')
  const project = usage.unique('flux_git_push_notified_unique_projects')
  const count = (projectId: bigint) => {
    notification()
    project(projectId)
  }
  const pathBytes = new Counter<AgentId>({ maxOfKey: limits.maxPathBytesOfAgent })
  const turns = new LoopTurns(listsPerTurn, maxWaitingLists)
  return async (call) => {
    const { projects, leave } = await readProjects(call, turns, (request) => {
      const count = countProjects(request)
      if (count > limits.maxProjects) throw invalid(`${count} projects are more than ${limits.maxProjects}`)
      const bytes = request.length + count * pathOverheadBytes
      const leave = pathBytes.enter(call.agent.id, bytes)
      if (leave) return leave
      const [limit, what] = [limits.maxPathBytesOfAgent, 'bytes of paths of projects of this agent']
      throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'path_bytes_of_agent', limit, what })
    })
    try {
      call.sendMetadata({})
      await new PushNotifications({ ...components, count }, limits, { call, projects }).run()
    } finally {
      leave()
    }
  }
}

/** @param charge - called with the request before it is decoded; returns the function that ends the charge */
async function readProjects(
  call: AgentCall,
  turns: LoopTurns,
  charge: (request: Uint8Array) => () => void,
): Promise<{ projects: ReadonlySet<string>; leave: () => void }> {
  for await (const bytes of call.messages) {
    if (bytes.length > shortListBytes) await turn(turns, call)
    const leave = charge(bytes)
    try {
      return { projects: pathsOf(bytes), leave }
    } catch (error) {
      leave()
      throw error
    }
  }
  throw invalid('no request message')
}

/** @throws KasError INVALID_MESSAGE */
function pathsOf(request: Uint8Array): ReadonlySet<string> {
  const { project } = decodeMessage(ReconcileProjectsRequestSchema, request)
  if (project.some(({ id }) => id === '')) throw invalid('project.id is required')
  return new Set(project.map(({ id }) => id))
}

/** @throws KasError TOO_MANY_STREAMS, or the signal's reason */
async function turn(turns: LoopTurns, { agent, signal }: AgentCall): Promise<void> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const what = 'long lists of projects that wait to be read'
  const lost = () =>
    reject(new KasError({ code: 'TOO_MANY_STREAMS', name: 'waiting_project_lists', limit: maxWaitingLists, what }))
  const leave = turns.enter(String(agent.id), resolve, lost)
  if (!leave) return
  const onAbort = () => {
    leave()
    reject(signal.reason)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  await promise.finally(() => signal.removeEventListener('abort', onAbort))
}

/** @throws KasError INVALID_MESSAGE */
function countProjects(request: Uint8Array): number {
  try {
    return countField(request, ReconcileProjectsRequestSchema.field.project.number)
  } catch (cause) {
    throw new KasError(
      { code: 'INVALID_MESSAGE', detail: `malformed ${ReconcileProjectsRequestSchema.typeName}` },
      { cause },
    )
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}

interface PushNotificationsComponents extends Omit<ReconcileProjectsComponents, 'usage'> {
  /** counts a notification of a push to the project, for GitLab */
  readonly count: (projectId: bigint) => void
}

/** One running stream. */
class PushNotifications {
  readonly #components: PushNotificationsComponents
  readonly #limits: typeof defaults
  readonly #clock: Clock
  readonly #call: AgentCall
  /** full paths */
  readonly #projects: ReadonlySet<string>
  /** pushes to send, the oldest first: at most `maxPending`, and two more per project */
  readonly #pending: RecentPush[] = []
  /** the same as a set: thousands may come at once, and each is searched for */
  readonly #isPending = new Set<RecentPush>()
  /** the last push that was sent, by path */
  readonly #sent = new Map<string, { readonly push: RecentPush; readonly at: number }>()
  #changed = Promise.withResolvers<void>()
  /** pushes for which the directory was unreachable, by path: tried again later */
  readonly #deferred = new Map<string, RecentPush>()
  #tries = 0
  #cancelRetry: (() => void) | undefined

  constructor(
    components: PushNotificationsComponents,
    limits: typeof defaults,
    { call, projects }: { call: AgentCall; projects: ReadonlySet<string> },
  ) {
    this.#components = components
    this.#limits = limits
    this.#clock = components.clock
    this.#call = call
    this.#projects = projects
  }

  async run(): Promise<void> {
    const { pushes } = this.#components
    const { agent, metadata, signal, retired } = this.#call
    const unsubscribe = pushes.onPush(agent.id, ({ push, again }) => this.#onPush(push, again))
    const detachDirectory = this.#call.onDirectoryChange(() => this.#changed.resolve())
    const ended = linkedController(signal, retired)
    const knowsIds = hasFeature(metadata, 'push-id') // it handles each id once, and another pod may have got it
    for (const push of pushes.recent()) {
      // one push per project: none replaces another, so none is searched for
      if (this.#projects.has(push.projectPath) && (knowsIds || !push.notified.has(agent.id))) this.#append(push)
    }
    try {
      for (;;) await this.#round(ended.signal)
    } catch (error) {
      if (!retired.aborted || signal.aborted) throw error
    } finally {
      unsubscribe()
      this.#resendUnsure()
      this.#cancelRetry?.()
      ended.dispose()
      detachDirectory()
    }
  }

  #onPush(push: RecentPush, again: boolean): void {
    if (!this.#projects.has(push.projectPath)) return
    if (again && !this.#isAgain(push)) return
    const isFull = this.#pending.length >= this.#limits.maxPending
    const at = isFull ? this.#pending.findLastIndex(({ projectPath }) => projectPath === push.projectPath) : -1
    if (at >= 0) {
      this.#isPending.delete(this.#pending[at] as RecentPush)
      this.#isPending.add(push)
      this.#pending[at] = push
      this.#components.metrics.dropped()
    } else this.#append(push)
    this.#changed.resolve()
  }

  #append(push: RecentPush): void {
    this.#pending.push(push)
    this.#isPending.add(push)
  }

  /** True if this stream has to send a push that another stream of the agent may have lost. */
  #isAgain(push: RecentPush): boolean {
    const isSent = this.#sent.get(push.projectPath)?.push === push
    if (isSent) push.notified.add(this.#call.agent.id)
    return !isSent && this.#deferred.get(push.projectPath) !== push && !this.#isPending.has(push)
  }

  /** Sends one push, or waits until there is one. */
  async #round(signal: AbortSignal): Promise<void> {
    this.#changed = Promise.withResolvers() // first, so that no change is missed
    await abortable(this.#call.stillValid(), signal)
    const push = this.#pending[0]
    if (!push) return await abortable(this.#changed.promise, signal)
    const verdict = await abortable(this.#mayRead(push, signal), signal)
    this.#take(push)
    if (verdict === 'unknown') return this.#defer(push)
    this.#tries = 0
    if (verdict === 'no')
      return this.#components.log.debug(this.#fields(push), 'An agent may not be notified of a push')
    await abortable(Promise.resolve(this.#send(push)), signal)
  }

  async #mayRead({ projectPath }: RecentPush, signal: AbortSignal): Promise<'yes' | 'no' | 'unknown'> {
    try {
      return (await this.#components.directory.readsProject(this.#call.token, projectPath, signal)) ? 'yes' : 'no'
    } catch (error) {
      if (KasError.from(error).code !== 'DIRECTORY_UNAVAILABLE') throw error
      return 'unknown'
    }
  }

  /** Removes the push, unless a newer push to the project has replaced it. */
  #take(push: RecentPush): void {
    this.#isPending.delete(push)
    const at = this.#pending.indexOf(push)
    if (at >= 0) this.#pending.splice(at, 1)
  }

  /** Keeps a push for a later try: the directory is unreachable. */
  #defer(push: RecentPush): void {
    const isWaiting = this.#deferred.has(push.projectPath)
    const isRecent = this.#components.pushes.isRecent(push)
    if (isRecent) this.#deferred.set(push.projectPath, push)
    if (isWaiting || !isRecent) this.#components.metrics.dropped()
    if (this.#deferred.size === 0) return
    const [first, last] = this.#limits.retryMs
    this.#cancelRetry ??= this.#clock.after(Math.min(last, first * 2 ** this.#tries), () => {
      this.#cancelRetry = undefined
      this.#tries += 1
      for (const push of this.#deferred.values()) this.#append(push)
      this.#deferred.clear()
      this.#changed.resolve()
    })
  }

  #send(push: RecentPush): Promise<void> | undefined {
    const { count, metrics, log } = this.#components
    const response = create(ReconcileProjectsResponseSchema, { project: { id: push.projectPath }, pushId: push.id })
    const room = this.#call.send(toBinary(ReconcileProjectsResponseSchema, response))
    push.notified.add(this.#call.agent.id)
    this.#sent.set(push.projectPath, { push, at: this.#clock.now() })
    metrics.notified()
    count(push.projectId)
    log.debug(this.#fields(push), 'An agent was notified of a push')
    return room
  }

  /** Sends pushes again that may not have arrived: at once if the agent is back, else on its next stream. */
  #resendUnsure(): void {
    const { aborted, reason } = this.#call.signal
    const isLost = aborted && KasError.from(reason).code === 'TUNNEL_LOST'
    for (const { push, at } of this.#sent.values()) {
      if (isLost || this.#clock.now() - at < unsureMs) this.#components.pushes.resend(push, this.#call.agent.id)
    }
  }

  #fields({ projectId }: RecentPush) {
    return { mod_name: 'gitlab_flux', agent_id: String(this.#call.agent.id), project_id: String(projectId) }
  }
}
