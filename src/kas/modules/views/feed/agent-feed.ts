import type { AgentId, Forward } from '../../../../call/call.ts'
import { kasCaller } from '../../../../call/caller.ts'
import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { Code, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { SharedRoom } from '../../../../lib/shared-room.ts'
import { linkedController } from '../../../../lib/signals.ts'
import { decodeMessage } from '../../../../proto/decode.ts'
import { type Fault, type FollowResponse, FollowResponseSchema, Views } from '../../../../proto/gen/views_pb.ts'
import { methodPath } from '../../../../proto/unary.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import { keysAtAgent } from '../../../agent-caller.ts'
import type { KasHost } from '../../../module.ts'
import type { ViewsMetrics } from '../views-metrics.ts'
import { FeedView, type ViewOwner } from './feed-view.ts'
import { FollowSteps } from './follow-steps.ts'
import { UnsentBytes } from './unsent-bytes.ts'
import type { OpenView, Viewer, WantedView } from './view.ts'

export interface AgentFeedComponents {
  readonly forward: Forward
  readonly serves: KasHost['serves']
  readonly away: KasHost['away']
  readonly metrics: ViewsMetrics
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
}

export interface AgentFeedOptions {
  readonly maxViews: number
  /** the longest that a new view waits for its first update, in ms */
  readonly firstUpdateMs: number
  /** the same if the agent is away; an agent that just connected may seem away for a moment. In ms */
  readonly newcomerMs: number
  /** time after the agent was lost until viewers without a new update learn that theirs is old, in ms */
  readonly staleMs: number
  /** time after the last view until the Follow ends, in ms */
  readonly lingerMs: number
  /** bytes of updates that viewers have not taken; beyond that, no more is read */
  readonly maxUnsentBytes: number
  /** time after which viewers that take nothing no longer delay the others, in ms */
  readonly patienceMs: number
}

export const defaultAgentFeed: AgentFeedOptions = {
  maxViews: viewsBounds.maxViewsPerAgent,
  firstUpdateMs: 20_000, // as long as any call waits for its agent
  newcomerMs: 500,
  staleMs: 1000,
  lingerMs: 30_000,
  maxUnsentBytes: 1024 * 1024,
  patienceMs: 1000,
}

const followMethod = methodPath(Views.method.follow)
/** each pod that has views serves it, even if it does not lead */
const leadMethod = methodPath(Views.method.lead)

/** Pauses until a lost Follow is opened again; the search for the agent waits by itself. */
const reopenBackoff = { firstMs: 50, maxMs: 2000, factor: 2, jitter: 0.5, resetMs: 30_000 }
/** Duration of a Follow with updates after which the next one opens without a longer pause, in ms. */
const goodFollowMs = 1000
/** Attempts in a row without a pause. Each idle tunnel of a former leading pod may take a call and refuse it. */
const maxUnserved = 32
/** bytes of a message beside the update */
const messageOverheadBytes = 4096
/** Late responses per closed view: an update, and the fault that ended it. */
const maxLatePerView = 2
/** characters of a fault's text */
const maxFaultCharacters = 512
const faultCode = /^[A-Z][A-Z_]{0,63}$/

/** All views of an agent at this replica: one Follow, which is opened again after each loss (doc/guide/views.md). */
export class AgentFeed implements ViewOwner {
  readonly #agentId: AgentId
  readonly #components: AgentFeedComponents
  readonly #options: AgentFeedOptions
  readonly #onEnd: () => void
  readonly #views = new Set<FeedView>()
  readonly #room: SharedRoom
  /** views of the present Follow, by number */
  readonly #byNumber = new Map<number, FeedView>()
  readonly #unsent: UnsentBytes
  readonly #stopping = new AbortController()
  #steps: FollowSteps | undefined
  /** responses of the present Follow that are about no view */
  #late = 0
  #running: Promise<void> | undefined
  #cancelLinger: () => void = () => undefined
  #cancelStale: (() => void) | undefined

  /** @param onEnd - called when the feed ends: it follows no agent and takes no views */
  constructor(
    agentId: AgentId,
    components: AgentFeedComponents,
    { onEnd, ...options }: AgentFeedOptions & { onEnd: () => void },
  ) {
    this.#agentId = agentId
    this.#components = components
    this.#options = options
    this.#onEnd = onEnd
    this.#room = new SharedRoom({ name: 'views_of_agent', limit: options.maxViews })
    this.#unsent = new UnsentBytes(components.clock, options)
  }

  get size(): number {
    return this.#views.size
  }

  /** @throws KasError TOO_MANY_STREAMS */
  open(wanted: WantedView, viewer: Viewer): OpenView {
    const asked = { ...wanted, caller: keysAtAgent(this.#agentId, wanted.caller) }
    const end = (reason: KasError) => view.fail(reason)
    const hold = this.#room.enter(asked.caller, { what: 'views of this agent', end })
    this.#cancelLinger()
    const view: FeedView = new FeedView(this, asked, viewer, () => hold.leave())
    this.#views.add(view)
    this.#waitFor(view)
    this.restarted(view)
    this.#running ??= Promise.resolve().then(() => this.#run()) // asynchronous: no view ends before its viewer has it
    return view
  }

  /** Ends all views. */
  async stop(): Promise<void> {
    this.#end()
    this.#failAll(new KasError({ code: 'SHUTTING_DOWN' }))
    await this.#running
  }

  restarted(view: FeedView): void {
    view.steps = this.#steps?.open(view.wanted, view)
    if (view.steps) this.#byNumber.set(view.steps.number, view)
  }

  closed(view: FeedView): void {
    this.#views.delete(view)
    if (this.#views.size > 0 || this.#stopping.signal.aborted) return
    this.#cancelLinger()
    this.#cancelLinger = this.#components.clock.after(this.#options.lingerMs, () => this.#end())
  }

  dropped(number: number): void {
    this.#byNumber.delete(number)
  }

  unsent(change: number): void {
    this.#unsent.add(change)
  }

  async #run(): Promise<void> {
    const { serves, clock, log } = this.#components
    const { signal } = this.#stopping
    const backoff = new Backoff(this.#components, reopenBackoff)
    let unserved = 0
    while (!signal.aborted) {
      if (serves(this.#agentId, leadMethod) === false) {
        this.#end() // first: a view that is opened now gets the next feed
        this.#failAll(noViews())
        return
      }
      const beganAt = clock.now()
      const { error, updates } = await this.#follow()
      if (signal.aborted || this.#views.size === 0) break
      log.debug({ agent_id: String(this.#agentId), error }, 'The views of an agent are opened again')
      this.#lost(error)
      if (updates > 0 && clock.now() - beganAt >= goodFollowMs) backoff.reset()
      unserved = error?.grpcCode === Code.UNIMPLEMENTED && updates === 0 ? unserved + 1 : 0
      if (unserved === 0 || unserved > maxUnserved) await backoff.wait(signal)
    }
    this.#end()
  }

  /** Runs one Follow to its end. */
  async #follow(): Promise<{ error: KasError | undefined; updates: number }> {
    const ended = linkedController(this.#stopping.signal)
    const steps = new FollowSteps()
    this.#steps = steps
    this.#late = 0
    for (const view of this.#views) this.restarted(view)
    let updates = 0
    try {
      const reply = await this.#components.forward({
        agentId: this.#agentId,
        method: followMethod,
        metadata: {},
        messages: steps,
        safety: 'safe',
        caller: kasCaller,
        reopens: true,
        waitsForAway: true, // new views of the agent do not wait longer for that
        signal: ended.signal,
      })
      for await (const bytes of reply.messages) {
        updates++
        this.#accept(bytes)
        await this.#unsent.room(ended.signal)
      }
      return { error: (await reply.done).error, updates }
    } catch (error) {
      return { error: KasError.from(error), updates }
    } finally {
      this.#steps = undefined
      steps.end()
      ended.abort(new KasError({ code: 'CANCELLED' }))
      ended.dispose()
    }
  }

  /** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE: the view is unknown */
  #accept(bytes: Uint8Array): void {
    const maxBytes = viewsBounds.maxUpdateBytes + messageOverheadBytes
    if (bytes.length > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: bytes.length, maxBytes })
    const response = decodeMessage(FollowResponseSchema, bytes)
    const view = this.#byNumber.get(response.view)
    if (!view) this.#acceptLate()
    else if (response.fault) {
      view.steps?.drop()
      view.fail(errorOf(response.fault))
    } else this.#update(view, response)
  }

  /**
   * Accepts a response about a view that was closed or begun again.
   *
   * @throws KasError INVALID_MESSAGE: there are too many
   */
  #acceptLate(): void {
    if (++this.#late <= maxLatePerView * (this.#steps?.opened ?? 0)) return
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'responses about views that there never were' })
  }

  #update(view: FeedView, { seq, update }: FollowResponse): void {
    const { metrics } = this.#components
    try {
      const { maxUpdateBytes: maxBytes } = viewsBounds
      if (update.length > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: update.length, maxBytes })
      view.update(seq, update)
      metrics.updated(update.length)
    } catch (error) {
      view.fail(KasError.from(error))
    }
  }

  #lost(error: KasError | undefined): void {
    const { clock } = this.#components
    this.#byNumber.clear()
    for (const view of this.#views) view.lost()
    const since = clock.now()
    const reason = error?.message ?? 'Another pod of the agent leads'
    this.#cancelStale ??= clock.after(this.#options.staleMs, () => {
      this.#cancelStale = undefined
      for (const view of this.#views) view.markStale({ at: clock.now(), since, why: reason })
    })
  }

  #waitFor(view: FeedView): void {
    const { clock, away } = this.#components
    const { firstUpdateMs, newcomerMs } = this.#options
    const fail = (waitedMs: number) => () => view.fail(this.#tooLate(waitedMs))
    if (!away(this.#agentId)) {
      view.cancelWait = clock.after(firstUpdateMs, fail(firstUpdateMs))
      return
    }
    view.cancelWait = clock.after(newcomerMs, () => {
      if (away(this.#agentId)) fail(newcomerMs)()
      else view.cancelWait = clock.after(firstUpdateMs - newcomerMs, fail(firstUpdateMs))
    })
  }

  /** Returns the reason for which a view has no update by now. */
  #tooLate(waitedMs: number): KasError {
    const serves = this.#components.serves(this.#agentId, leadMethod)
    if (serves === undefined) {
      return new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs, ...this.#components.away(this.#agentId) })
    }
    return serves ? new KasError({ code: 'VIEWS_NOT_LED', waitedMs }) : noViews()
  }

  #failAll(error: KasError): void {
    for (const view of [...this.#views]) view.fail(error)
  }

  #end(): void {
    if (this.#stopping.signal.aborted) return
    this.#stopping.abort(new KasError({ code: 'CANCELLED' }))
    this.#cancelLinger()
    this.#cancelStale?.()
    this.#onEnd()
  }
}

function noViews(): KasError {
  return new KasError({ code: 'VIEWS_NOT_SERVED', reason: 'its version has none' })
}

function errorOf({ code, text }: Fault): KasError {
  const detail = text.slice(0, maxFaultCharacters)
  // a mistake of the caller is no failure of the agent
  if (code === 'BAD_REQUEST') return new KasError({ code, detail: detail.replace(/^Bad request: /, '') })
  return new KasError({ code: 'VIEW_ENDED', agentCode: faultCode.test(code) ? code : 'INTERNAL', detail })
}
