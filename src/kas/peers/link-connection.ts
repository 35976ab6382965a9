import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import type { HandOverStream } from './hand-over-stream.ts'
import { Lanes } from './lanes.ts'
import { Reachability, type ReachabilityOptions } from './reachability.ts'

export interface LinkConnectionComponents {
  readonly session: ClientSession
  readonly clock: Clock
  readonly log: Logger
  /** Called when the peer became unreachable, or reachable again. */
  readonly onChange: () => void
}

/** Watches one connection to a peer by PINGs until it ends: also while it drains, because calls still run on it. */
export class LinkConnection {
  readonly session: ClientSession
  /** lanes for calls that are handed over */
  readonly lanes: Lanes
  /** resolves once nothing can be opened on the connection: it drains, or has ended */
  readonly drained: Promise<void>
  readonly #components: LinkConnectionComponents
  readonly #options: ReachabilityOptions
  readonly #reachability: Reachability
  readonly #drained = Promise.withResolvers<void>()
  /** safe calls without a byte of their reply; the function returns true if the call may be tried elsewhere */
  readonly #unanswered = new Map<HandOverStream, () => boolean>()
  /** calls that their callers open again when they are lost */
  readonly #reopened = new Set<HandOverStream>()
  #bytesRead = 0
  #next: { readonly dueAt: number; cancel(): void } | undefined

  constructor(components: LinkConnectionComponents, options: ReachabilityOptions) {
    const { session, clock } = components
    this.session = session
    this.lanes = new Lanes({ session, clock })
    this.#components = components
    this.#options = options
    this.#reachability = new Reachability(options)
    this.drained = this.#drained.promise
    session.onDraining(() => this.#drained.resolve())
    this.#checkIn(options.roundMs)
    void session.closed.then(() => this.#stopChecking())
  }

  get isUnreachable(): boolean {
    return this.#reachability.isUnreachable
  }

  get isSuspect(): boolean {
    return this.#reachability.isSuspect(this.#components.clock.now())
  }

  /** Ends the connection and the calls on it. */
  destroy(): void {
    this.#stopChecking()
    this.session.destroy()
  }

  /**
   * Cancels a safe call if its reply does not come because the peer does not answer.
   *
   * @param tryElsewhere - returns true if the call can, and may, be tried elsewhere; the call is then cancelled
   */
  untilAnswered(stream: HandOverStream, tryElsewhere: () => boolean): void {
    this.#unanswered.set(stream, tryElsewhere)
    void stream.metadata.then(() => this.#unanswered.delete(stream))
    const { hurryMs } = this.#options
    if (this.#next && this.#next.dueAt > this.#components.clock.now() + hurryMs) this.#checkIn(hurryMs)
  }

  /** Cancels a call, answered or not, once the peer is unreachable: its caller opens it again. */
  untilUnreachable(stream: HandOverStream): void {
    this.#reopened.add(stream)
    void stream.done.then(() => this.#reopened.delete(stream))
  }

  #checkIn(ms: number): void {
    this.#next?.cancel()
    const { clock } = this.#components
    const dueAt = clock.now() + ms
    const cancel = clock.after(ms, () => {
      this.#checkNow(dueAt)
      const { hurryMs, roundMs } = this.#options
      if (this.#next === own) this.#checkIn(this.#unanswered.size > 0 ? hurryMs : roundMs)
    })
    const own = { dueAt, cancel }
    this.#next = own
  }

  #stopChecking(): void {
    this.#next?.cancel()
    this.#next = undefined
  }

  #checkNow(dueAt: number): void {
    const { session, log, clock, onChange } = this.#components
    if (session.draining) this.#drained.resolve() // node closes a session whose frames it cannot send, without an event
    if (session.bytesRead !== this.#bytesRead) this.#received()
    this.#bytesRead = session.bytesRead
    const reachability = this.#reachability
    const was = reachability.isUnreachable
    if (reachability.check(clock.now(), dueAt)) {
      session.ping().then(
        () => this.#received(),
        () => undefined, // the connection ended, and its owner notices that
      )
    }
    if (reachability.isLost) {
      log.info('A replica does not answer: its connection is given up, and with it the calls that wait for it')
      this.destroy()
    } else if (reachability.isUnreachable) {
      this.#loseUnanswered(() => true)
      for (const stream of this.#reopened) stream.cancel(lost())
      if (!was) onChange()
    } else if (reachability.isSuspect(clock.now())) this.#loseUnanswered((tryElsewhere) => tryElsewhere())
  }

  /** Cancels safe calls without a reply: they are tried elsewhere before the peer answers or its connection ends. */
  #loseUnanswered(isLost: (tryElsewhere: () => boolean) => boolean): void {
    for (const [stream, tryElsewhere] of this.#unanswered) {
      if (isLost(tryElsewhere)) stream.cancel(lost())
    }
  }

  #received(): void {
    const was = this.#reachability.isUnreachable
    this.#reachability.received()
    if (was) this.#components.onChange()
  }
}

function lost(): KasError {
  return new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
}
