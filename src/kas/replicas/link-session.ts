import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { ClientSession } from '../../proto/grpc/client-session.ts'
import type { HandOverStream } from './hand-over-stream.ts'
import { Reachability, type ReachabilityOptions } from './reachability.ts'

export interface LinkSessionComponents {
  readonly session: ClientSession
  readonly now: () => number
  readonly log: Logger
  /** it became unreachable, or reachable again */
  readonly onChange: () => void
}

/** One connection to a replica, watched by PINGs to its end: also while it drains, for calls run on it. */
export class LinkSession {
  readonly session: ClientSession
  /** resolves once nothing can be opened on it: it drains, or has ended */
  readonly drained: Promise<void>
  readonly #components: LinkSessionComponents
  readonly #options: ReachabilityOptions
  readonly #reachability: Reachability
  readonly #drained = Promise.withResolvers<void>()
  /** safe calls, handed over, of whose replies nothing has come; may each go another way? */
  readonly #unanswered = new Map<HandOverStream, () => boolean>()
  #bytesRead = 0
  #look: { readonly timer: NodeJS.Timeout; readonly dueAt: number } | undefined

  constructor(components: LinkSessionComponents, options: ReachabilityOptions) {
    const { session } = components
    this.session = session
    this.#components = components
    this.#options = options
    this.#reachability = new Reachability(options)
    this.drained = this.#drained.promise
    session.onDraining(() => this.#drained.resolve())
    this.#lookIn(options.roundMs)
    void session.closed.then(() => this.#stopLooking())
  }

  get isUnreachable(): boolean {
    return this.#reachability.isUnreachable
  }

  get isSuspect(): boolean {
    return this.#reachability.isSuspect(this.#components.now())
  }

  /** Ends it and the calls on it. */
  destroy(): void {
    this.#stopLooking()
    this.session.destroy()
  }

  /**
   * Cancels a safe call whose reply does not come because the replica is silent.
   *
   * @param tryElsewhere - whether it can, and may, go another way, which it does soon then
   */
  untilAnswered(stream: HandOverStream, tryElsewhere: () => boolean): void {
    this.#unanswered.set(stream, tryElsewhere)
    void stream.metadata.then(() => this.#unanswered.delete(stream))
    const { hurryMs } = this.#options
    if (this.#look && this.#look.dueAt > this.#components.now() + hurryMs) this.#lookIn(hurryMs)
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#look?.timer)
    const dueAt = this.#components.now() + ms
    const timer = setTimeout(() => {
      this.#lookNow(dueAt)
      const { hurryMs, roundMs } = this.#options
      if (this.#look?.timer === timer) this.#lookIn(this.#unanswered.size > 0 ? hurryMs : roundMs)
    }, ms)
    this.#look = { timer, dueAt }
  }

  #stopLooking(): void {
    clearTimeout(this.#look?.timer)
    this.#look = undefined
  }

  #lookNow(dueAt: number): void {
    const { session, log, now, onChange } = this.#components
    if (session.draining) this.#drained.resolve() // node closes one whose frames it cannot send, and tells nobody
    if (session.bytesRead !== this.#bytesRead) this.#heard()
    this.#bytesRead = session.bytesRead
    const reachability = this.#reachability
    const was = reachability.isUnreachable
    if (reachability.look(now(), dueAt)) {
      session.ping().then(
        () => this.#heard(),
        () => undefined, // the connection ended, which its owner sees
      )
    }
    if (reachability.isLost) {
      log.info('A replica is silent: its connection is given up, and with it the calls that wait for it')
      this.destroy()
    } else if (reachability.isUnreachable) {
      this.#loseUnanswered(() => true)
      if (!was) onChange()
    } else if (reachability.isSuspect(now())) this.#loseUnanswered((tryElsewhere) => tryElsewhere())
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
