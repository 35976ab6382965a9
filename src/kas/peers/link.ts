import type { Call } from '../../call/call.ts'
import type { NoOffer, Offer } from '../../call/offer.ts'
import { RpcSpan } from '../../call/rpc-span.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { pause } from '../../lib/pause.ts'
import type { Cancellation } from '../../lib/signals.ts'
import type { SpanAttributes, Tracer } from '../../lib/tracing/tracer.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import type { UnreadByAgent } from '../memory/unread-by-agent.ts'
import type { HandOver } from './hand-over-metadata.ts'
import { HandOverStream } from './hand-over-stream.ts'
import type { Lanes } from './lanes.ts'
import { LinkConnection } from './link-connection.ts'
import { defaultReachability, type ReachabilityOptions } from './reachability.ts'

export interface LinkComponents {
  /** connects to the peer and proves its identity; throws a KasError */
  readonly dial: (signal: AbortSignal) => Promise<ClientSession>
  /** a monotonic clock */
  readonly clock: Clock
  readonly random: () => number
  readonly log: Logger
  /** name of the peer */
  readonly peer?: string
  /** Called when the link became open, unreachable or reachable again. */
  readonly onChange: () => void
  /** counts unread bytes of each agent at this replica */
  readonly unreadByAgent?: UnreadByAgent
  /** Called when the peer answers that it does not know this replica. */
  readonly onUnknown: () => void
  readonly tracer: Tracer
  /** attributes of the peer, for the span of each call that is handed over */
  readonly attributes: SpanAttributes
}

export interface LinkOptions {
  readonly reachability: ReachabilityOptions
  /** pause between attempts to connect, doubled from the first to the last, with jitter. ms */
  readonly redialMs: readonly [first: number, last: number]
}

export const defaultLink: LinkOptions = { reachability: defaultReachability, redialMs: [50, 1000] }

/**
 * States of a link. `suspect`: a PING is unanswered for a moment; `unreachable`: for longer; `down`: there is no
 * connection. Calls can be handed over in the first two.
 */
export const reaches = ['reachable', 'suspect', 'unreachable', 'down'] as const
export type Reach = (typeof reaches)[number]

/** True if calls may be handed over on the link. */
export function isUsable(reach: Reach): boolean {
  return reach === 'reachable' || reach === 'suspect'
}

export interface OfferRequest {
  /** how long the holder may wait for a tunnel; 0: it answers at once. ms */
  readonly waitMs: number
  /** the messages follow at once: only for safe calls, because two replicas may get them */
  readonly eager: boolean
  /** called when the peer stops answering a safe call; true: the call is tried elsewhere */
  readonly tryElsewhere: () => boolean
  /** cancelled when the answer no longer matters */
  readonly cancellation: Cancellation
}

/**
 * Link from this replica to a peer: one HTTP/2 connection, on which calls are handed over. A connection that drains is
 * replaced at once, and ends with its calls.
 */
export class Link {
  readonly #components: LinkComponents
  readonly #options: LinkOptions
  readonly #closing = new AbortController()
  #current: LinkConnection | undefined
  /** all connections that have not ended, `#current` included */
  readonly #sessions = new Set<LinkConnection>()
  #calls = 0
  #failure: unknown

  constructor(components: LinkComponents, options: LinkOptions = defaultLink) {
    this.#components = components
    this.#options = options
  }

  /** Calls of this replica that run on the link. */
  get calls(): number {
    return this.#calls
  }

  get session(): ClientSession | undefined {
    return this.#usable?.session
  }

  get reach(): Reach {
    const usable = this.#usable
    if (!usable) return 'down'
    if (usable.isUnreachable) return 'unreachable'
    return usable.isSuspect ? 'suspect' : 'reachable'
  }

  get #usable(): LinkConnection | undefined {
    const current = this.#current
    return current && !current.session.draining ? current : undefined
  }

  /** Error of the last attempt to connect; undefined: it succeeded, or there was none. */
  get failure(): unknown {
    return this.#failure
  }

  /** Connects, and connects again whenever the connection ends, until `close`. */
  open(): void {
    void this.#run()
  }

  /** Stops handing over calls and dialling. Resolves when the calls that run have ended. */
  async retire(): Promise<void> {
    this.#closing.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    const sessions = Array.from(this.#sessions, ({ session }) => session)
    for (const session of sessions) session.close()
    await Promise.all(sessions.map(({ closed }) => closed))
    this.close()
  }

  /** Ends the connections and the calls on them. */
  close(): void {
    this.#closing.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    for (const session of this.#sessions) session.destroy()
  }

  /**
   * Asks the peer for a tunnel for the call.
   *
   * @returns a tunnel of the peer for the call, or the reason that there is none
   * @throws KasError CALLER_OVER_SHARE
   */
  async askForTunnel(
    call: Call,
    { waitMs, eager, tryElsewhere, cancellation }: OfferRequest,
  ): Promise<Offer | NoOffer> {
    const usable = this.#usable
    if (!usable || cancellation.isCancelled) return 'none'
    const opened = this.#open(usable.lanes, call, { waitMs, eager })
    if (!opened) return 'none'
    const { stream, span } = opened
    this.#calls++
    void stream.done.then(({ error }) => {
      this.#calls--
      span.end(error)
    })
    cancellation.onCancel(() => stream.cancel())
    if (eager) void stream.send(call) // its reply is the answer: `forward` has nothing left to send
    const answer = await stream.answer
    span.span.set({ 'kas.answer': answer })
    cancellation.onCancel(undefined)
    if (answer === 'unknown') this.#components.onUnknown()
    if (answer === 'refused') throw (await stream.done).error
    if (answer !== 'ready') return answer === 'none' ? 'none' : 'unanswered'
    const { peer } = this.#components
    return {
      ...(peer === undefined ? {} : { peer }),
      forward: (theCall) => {
        if (!eager) void stream.send(theCall)
        if (theCall.safety === 'safe') usable.untilAnswered(stream, tryElsewhere)
        if (theCall.reopens) usable.untilUnreachable(stream)
        return stream.reply(theCall)
      },
      giveBack: () => stream.cancel(),
    }
  }

  /**
   * Opens a stream for the call. Each offer has a span if calls are traced, also one that is not taken.
   *
   * @returns undefined: the connection takes no call, or not this one
   */
  #open(
    lanes: Lanes,
    call: Call,
    how: Pick<HandOver, 'waitMs' | 'eager'>,
  ): { stream: HandOverStream; span: RpcSpan } | undefined {
    const { unreadByAgent, log } = this.#components
    const { agentId, caller, isWatch = false, isLog = false } = call
    const handOver = { agentId, caller, isWatch, isLog, ...how }
    const own = unreadByAgent?.enter(call.agentId)
    const span = this.#begin(call)
    try {
      const stream = new HandOverStream(lanes, span.call(call), handOver, own?.unread)
      stream.onClosed(() => own?.leave())
      return { stream, span }
    } catch (error) {
      own?.leave()
      const failure = KasError.from(error)
      span.end(failure)
      if (failure.code === 'INTERNAL') log.error({ error }, 'A call could not be handed over')
      else log.debug({ error }, 'A call could not be handed over')
      return undefined
    }
  }

  #begin({ method, metadata: parent, agentId }: Call): RpcSpan {
    const { tracer, attributes } = this.#components
    const span = RpcSpan.begin(tracer, { kind: 'client', method, parent, attributes })
    span.calls(agentId)
    return span
  }

  async #run(): Promise<void> {
    const { dial, log, clock, random } = this.#components
    const { signal } = this.#closing
    const [firstMs, lastMs] = this.#options.redialMs
    let pauseMs = firstMs
    while (!signal.aborted) {
      try {
        const session = await dial(signal)
        if (signal.aborted) return session.destroy()
        this.#failure = undefined
        pauseMs = firstMs
        const begun = clock.now()
        await this.#use(session)
        // no pause, because calls wait for a connection; but there is one after a connection that ended at once
        if (!session.destroyed && clock.now() - begun >= lastMs) continue
      } catch (error) {
        this.#failure = error
        if (!signal.aborted) log.debug({ error }, 'A replica could not be reached')
      }
      await pause(pauseMs * (0.5 + random()), clock, signal)
      pauseMs = Math.min(lastMs, pauseMs * 2)
    }
  }

  /** Resolves when nothing more can be handed over on the session; its running calls go on. */
  async #use(session: ClientSession): Promise<void> {
    const { log, clock, onChange } = this.#components
    const current = new LinkConnection({ session, log, clock, onChange }, this.#options.reachability)
    this.#sessions.add(current)
    void session.closed.then(() => this.#sessions.delete(current))
    this.#current = current
    onChange()
    await current.drained
    this.#current = undefined
    onChange()
  }
}
