import type { Clock } from '../../lib/clock.ts'
import { Counter } from '../../lib/counter.ts'

/** Bounds of connections that have not proven to have the secret yet. */
export const inboundBounds = {
  /** connections from one address that discovery does not list */
  pendingPerAddress: 16,
  /** connections from all such addresses together */
  pendingOfStrangers: 256,
  /** connections from one address that discovery lists */
  pendingPerMember: 1024,
  /** new connections a second from one address that discovery does not list */
  perSecond: 50,
} as const

const secondMs = 1000

/**
 * Prevents strangers that open connections and send nothing from locking members out. Places are counted by address,
 * and addresses that discovery lists have their own.
 */
export class InboundLimit {
  readonly #clock: Clock
  readonly #members = new Counter<string>({ maxOfKey: inboundBounds.pendingPerMember })
  readonly #strangers = new Counter<string>({
    maxOfKey: inboundBounds.pendingPerAddress,
    max: inboundBounds.pendingOfStrangers,
  })
  /** new connections in this second */
  readonly #arrivals = new Counter<string>()
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Counts a connection.
   *
   * @param listed - true: discovery lists the address
   * @returns function to call once, when the connection has proven itself or ended; undefined: refused
   */
  admit(host: string, listed: boolean): (() => void) | undefined {
    const arrivals = this.#arrivals.add(host)
    this.#cancel ??= this.#clock.after(secondMs, () => {
      this.#cancel = undefined
      this.#arrivals.clear()
    })
    if (listed) return this.#members.enter(host)
    return arrivals > inboundBounds.perSecond ? undefined : this.#strangers.enter(host)
  }

  stop(): void {
    this.#cancel?.()
  }
}
