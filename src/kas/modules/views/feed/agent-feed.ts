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
import type { KasHost } from '../../../module.ts'
import type { ViewsMetrics } from '../views-metrics.ts'
import { FeedView, type ViewOwner } from './feed-view.ts'
import { FollowSteps } from './follow-steps.ts'
import { UnsentBytes } from './unsent-bytes.ts'
import type { OpenView, Viewer, WantedView } from './view.ts'
import { viewerOf } from './viewer-keys.ts'

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
  /** a new view waits so long for its first update. ms */
  readonly firstUpdateMs: number
  /** and no longer than this if its agent has been away for long, which a newcomer may seem for a moment. ms */
  readonly newcomerMs: number
  /** after the agent was lost: viewers that have nothing new by then get that it is old. ms */
  readonly staleMs: number
  /** after the last view: the Follow ends. ms */
  readonly lingerMs: number
  /** of updates that viewers have not taken: no more is read then */
  readonly maxUnsentBytes: number
  /** those that take nothing for so long do not hold the others up any more. ms */
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
/** every pod serves it that has views at all, whoever leads */
const leadMethod = methodPath(Views.method.lead)

/** Until a Follow that was lost is opened again; the search for the agent waits by itself. */
const reopenBackoff = { firstMs: 50, maxMs: 2000, factor: 2, jitter: 0.5, resetMs: 30_000 }
/** A Follow that has brought updates for so long was a good one: the next is opened without a longer pause. ms */
const goodFollowMs = 1000
/** Idle tunnels of a pod that has led: each takes a call, and says that it does not. In a row, without a pause. */
const maxUnserved = 32
/** a message's own, beside the update */
const messageOverheadBytes = 4096
/** That may come of a view that was closed meanwhile: an update, and why it has ended. */
const maxLatePerView = 2
/** of what an agent says of a fault */
const maxFaultCharacters = 512
const faultCode = /^[A-Z][A-Z_]{0,63}$/

/**
 * All views of an agent that are open by way of this replica: one Follow, opened again whenever anything on its
 * way is lost (doc/views.md).
 */
export class AgentFeed implements ViewOwner {
  readonly #agentId: AgentId
  readonly #components: AgentFeedComponents
  readonly #options: AgentFeedOptions
  readonly #onEnd: () => void
  readonly #views = new Set<FeedView>()
  readonly #room: SharedRoom
  /** on the present Follow */
  readonly #byNumber = new Map<number, FeedView>()
  readonly #unsent: UnsentBytes
  readonly #stopping = new AbortController()
  #steps: FollowSteps | undefined
  /** responses of the present Follow that are about no view */
  #late = 0
  #running: Promise<void> | undefined
  #cancelLinger: () => void = () => undefined
  #cancelStale: (() => void) | undefined

  /** @param onEnd - it follows nothing any more, and takes no views */
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
    const asked = { ...wanted, caller: viewerOf(this.#agentId, wanted.caller) }
    const end = (reason: KasError) => view.fail(reason)
    const hold = this.#room.enter(asked.caller, { what: 'views of this agent', end })
    this.#cancelLinger()
    const view: FeedView = new FeedView(this, asked, viewer, () => hold.leave())
    this.#views.add(view)
    this.#waitFor(view)
    this.restarted(view)
    this.#running ??= Promise.resolve().then(() => this.#run()) // no view ends before its viewer has it
    return view
  }

  /** All views end. */
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
        this.#end() // first: who opens another view now finds the next feed
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

  /** One Follow, to its end. */
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
        waitsForAway: true, // new views of it are not kept waiting
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

  /** @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE: nobody knows of which view */
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

  /** Of a view that was closed, or begun anew, meanwhile. @throws KasError INVALID_MESSAGE: more than there can be */
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

  /** Why a view has no update by now. */
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
  // the caller's mistake, and no failure of the agent
  if (code === 'BAD_REQUEST') return new KasError({ code, detail: detail.replace(/^Bad request: /, '') })
  return new KasError({ code: 'VIEW_ENDED', agentCode: faultCode.test(code) ? code : 'INTERNAL', detail })
}
