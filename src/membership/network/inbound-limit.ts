import type { Clock } from '../../lib/clock.ts'

/** Connections that have not proven yet to know the secret. */
export const inboundBounds = {
  /** from one address that discovery does not list */
  pendingPerAddress: 16,
  /** from all of those together */
  pendingOfStrangers: 256,
  /** from one address that discovery lists */
  pendingPerMember: 1024,
  /** new ones a second from one address that discovery does not list */
  perSecond: 50,
} as const

const secondMs = 1000

interface Address {
  pending: number
  arrivals: number
}

/**
 * Keeps strangers that open connections and say nothing from locking members out: the places they can take are
 * counted by address, and addresses that discovery lists have their own.
 */
export class InboundLimit {
  readonly #clock: Clock
  readonly #addresses = new Map<string, Address>()
  #pendingOfStrangers = 0
  #cancel: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * @param listed - by discovery
   * @returns to be called once, when the connection has proven itself or ended; undefined: refused
   */
  admit(host: string, listed: boolean): (() => void) | undefined {
    const address = this.#addresses.get(host) ?? { pending: 0, arrivals: 0 }
    this.#addresses.set(host, address)
    address.arrivals++
    this.#cancel ??= this.#clock.after(secondMs, () => this.#nextSecond())
    const { pendingPerAddress, pendingOfStrangers, pendingPerMember, perSecond } = inboundBounds
    if (address.pending >= (listed ? pendingPerMember : pendingPerAddress)) return undefined
    if (!listed && this.#pendingOfStrangers >= pendingOfStrangers) return undefined
    if (!listed && address.arrivals > perSecond) return undefined
    address.pending++
    if (!listed) this.#pendingOfStrangers++
    let done = false
    return () => {
      if (done) return
      done = true
      address.pending--
      if (!listed) this.#pendingOfStrangers--
    }
  }

  stop(): void {
    this.#cancel?.()
  }

  #nextSecond(): void {
    this.#cancel = undefined
    for (const [host, address] of this.#addresses) {
      address.arrivals = 0
      if (address.pending === 0) this.#addresses.delete(host)
    }
    if (this.#addresses.size > 0) this.#cancel = this.#clock.after(secondMs, () => this.#nextSecond())
  }
}
