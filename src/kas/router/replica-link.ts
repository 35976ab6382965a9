import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { delay } from '../../lib/signals.ts'
import type { SpanAttributes, Tracer } from '../../lib/tracing/tracer.ts'
import type { Call } from '../../proto/call.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import { RpcSpan } from '../../proto/rpc-span.ts'
import type { HandOver } from './hand-over.ts'
import { HandOverStream } from './hand-over-stream.ts'
import type { Offer } from './offer.ts'
import { defaultReachability, Reachability, type ReachabilityOptions } from './reachability.ts'

export interface ReplicaLinkComponents {
  /** a connection to the replica, which has proven that it is the one; throws a KasError */
  readonly dial: (signal: AbortSignal) => Promise<ClientSession>
  readonly now: () => number
  readonly random: () => number
  readonly log: Logger
  /** it became open, unreachable or reachable again */
  readonly onChange: () => void
  /** the replica says that it does not know us */
  readonly onUnknown: () => void
  /** what each call that is handed over is told as; absent: nothing is traced */
  readonly traced?: { readonly tracer: Tracer; readonly attributes: SpanAttributes }
}

export interface ReplicaLinkOptions {
  readonly reachability: ReachabilityOptions
  /** between tries to connect, doubled from the first to the last, with jitter. ms */
  readonly redialMs: readonly [first: number, last: number]
}

export const defaultReplicaLink: ReplicaLinkOptions = { reachability: defaultReachability, redialMs: [50, 1000] }

/**
 * `suspect`: a PING is unanswered for a moment; `unreachable`: for longer; `down`: there is no connection. The first
 * two can be used.
 */
export const reaches = ['reachable', 'suspect', 'unreachable', 'down'] as const
export type Reach = (typeof reaches)[number]

export const isUsable = (reach: Reach): boolean => reach === 'reachable' || reach === 'suspect'

export interface AskOptions {
  /** how long the holder may wait for a tunnel; 0: it says at once. ms */
  readonly waitMs: number
  /** the messages follow at once: for safe calls alone, which two replicas may get */
  readonly eager: boolean
  /** asked of a safe call that waits for its reply when the replica falls silent: it can, and may, go another way */
  readonly tryElsewhere: () => boolean
  /** the answer is not wanted any more */
  readonly signal: AbortSignal
}

/** The one HTTP/2 connection from this replica to another: calls are handed over on it, PINGs tell if it lives. */
export class ReplicaLink {
  readonly #components: ReplicaLinkComponents
  readonly #options: ReplicaLinkOptions
  readonly #closing = new AbortController()
  #reachability: Reachability
  #session: ClientSession | undefined
  /** safe calls, handed over, of whose replies nothing has come; may each go another way? */
  readonly #unanswered = new Map<HandOverStream, AskOptions['tryElsewhere']>()
  #bytesRead = 0
  #calls = 0
  #look: { readonly timer: NodeJS.Timeout; readonly dueAt: number } | undefined
  #failure: unknown

  constructor(components: ReplicaLinkComponents, options: ReplicaLinkOptions = defaultReplicaLink) {
    this.#components = components
    this.#options = options
    this.#reachability = new Reachability(options.reachability)
  }

  /** Of ours, in flight. */
  get calls(): number {
    return this.#calls
  }

  get session(): ClientSession | undefined {
    const session = this.#session
    return session && !session.draining ? session : undefined
  }

  get reach(): Reach {
    if (!this.session) return 'down'
    if (this.#reachability.isUnreachable) return 'unreachable'
    return this.#reachability.isSuspect(this.#components.now()) ? 'suspect' : 'reachable'
  }

  /** Why the last try to connect has failed; undefined if it has not. */
  get failure(): unknown {
    return this.#failure
  }

  /** Connects, and again whenever the connection ends, until `close`. */
  open(): void {
    void this.#run()
    this.#lookIn(this.#options.reachability.roundMs)
  }

  /** Hands nothing over any more, and is not dialled again. Resolves when the calls of before have ended. */
  async retire(): Promise<void> {
    this.#closing.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    const session = this.#session
    session?.close()
    await session?.closed
    this.close()
  }

  /** Ends the connection and the calls on it. */
  close(): void {
    clearTimeout(this.#look?.timer)
    this.#look = undefined
    this.#closing.abort(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
    this.#session?.destroy()
  }

  /**
   * Asks for a tunnel that serves the call.
   *
   * @returns undefined: it has none, or cannot be asked; never rejects
   */
  async ask(call: Call, { waitMs, eager, tryElsewhere, signal }: AskOptions): Promise<Offer | undefined> {
    const { session } = this
    if (!session || signal.aborted) return undefined
    const { stream, span } = this.#open(session, call, { agentId: call.agentId, waitMs, eager })
    this.#calls++
    void stream.done.then(({ error }) => {
      this.#calls--
      span?.end(error)
    })
    const giveUp = () => stream.cancel(KasError.from(signal.reason))
    signal.addEventListener('abort', giveUp, { once: true })
    if (eager) void stream.send(call)
    const answer = await stream.answer
    span?.span.set({ 'kas.answer': answer })
    signal.removeEventListener('abort', giveUp)
    if (answer === 'unknown') this.#components.onUnknown()
    if (answer !== 'ready') return undefined
    return {
      forward: (theCall) => {
        if (!eager) void stream.send(theCall)
        if (theCall.safety === 'safe') this.#untilAnswered(stream, tryElsewhere)
        return stream.reply(theCall)
      },
      giveBack: () => stream.cancel(),
    }
  }

  /** Where calls are traced each time that the replica is asked has a span, also those that are in vain. */
  #open(session: ClientSession, call: Call, handOver: HandOver): { stream: HandOverStream; span?: RpcSpan } {
    const { traced } = this.#components
    if (!traced) return { stream: new HandOverStream(session, call, handOver) }
    const { method, metadata: parent, agentId } = call
    const span = new RpcSpan(traced.tracer, { kind: 'client', method, parent, attributes: traced.attributes })
    span.calls(agentId)
    try {
      return { stream: new HandOverStream(session, span.call(call), handOver), span }
    } catch (error) {
      span.end(KasError.from(error))
      throw error
    }
  }

  async #run(): Promise<void> {
    const { dial, log, onChange, random } = this.#components
    const { signal } = this.#closing
    const [firstMs, lastMs] = this.#options.redialMs
    let pauseMs = firstMs
    while (!signal.aborted) {
      try {
        this.#session = await dial(signal)
        if (signal.aborted) return this.#session.destroy()
        this.#failure = undefined
        this.#reachability = new Reachability(this.#options.reachability)
        this.#bytesRead = 0
        pauseMs = firstMs
        onChange()
        await this.#session.closed
        this.#session = undefined
        onChange()
      } catch (error) {
        this.#failure = error
        if (!signal.aborted) log.debug({ error }, 'A replica could not be reached')
      }
      await delay(pauseMs * (0.5 + random()), signal).catch(() => undefined) // closing ends the loop
      pauseMs = Math.min(lastMs, pauseMs * 2)
    }
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#look?.timer)
    const dueAt = this.#components.now() + ms
    const timer = setTimeout(() => {
      this.#lookNow(dueAt)
      const { hurryMs, roundMs } = this.#options.reachability
      if (this.#look?.timer === timer) this.#lookIn(this.#unanswered.size > 0 ? hurryMs : roundMs)
    }, ms)
    this.#look = { timer, dueAt }
  }

  #lookNow(dueAt: number): void {
    const session = this.#session
    if (!session) return
    const { log, now, onChange } = this.#components
    if (session.bytesRead !== this.#bytesRead) this.#heard()
    this.#bytesRead = session.bytesRead
    const reachability = this.#reachability
    const was = reachability.isUnreachable
    if (reachability.look(now(), dueAt)) {
      session.ping().then(
        () => this.#heard(),
        () => undefined, // the connection ended, which `#run` sees
      )
    }
    if (reachability.isLost) {
      log.info('A replica is silent: its connection is given up, and with it the calls that wait for it')
      this.#session = undefined
      session.destroy()
    } else if (reachability.isUnreachable) {
      this.#loseUnanswered(() => true)
      if (!was) onChange()
    } else if (reachability.isSuspect(now())) this.#loseUnanswered((tryElsewhere) => tryElsewhere())
  }

  #untilAnswered(stream: HandOverStream, tryElsewhere: AskOptions['tryElsewhere']): void {
    this.#unanswered.set(stream, tryElsewhere)
    void stream.metadata.then(() => this.#unanswered.delete(stream))
    const { hurryMs } = this.#options.reachability
    if (this.#look && this.#look.dueAt > this.#components.now() + hurryMs) this.#lookIn(hurryMs)
  }

  /** Safe calls need not wait until a silent replica speaks again, or its connection ends: they go another way. */
  #loseUnanswered(isLost: (tryElsewhere: () => boolean) => boolean): void {
    for (const [stream, tryElsewhere] of this.#unanswered) {
      if (isLost(tryElsewhere)) stream.cancel(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
    }
  }

  #heard(): void {
    const was = this.#reachability.isUnreachable
    this.#reachability.heard()
    if (was) this.#components.onChange()
  }
}
