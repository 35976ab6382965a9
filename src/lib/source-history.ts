import { networkOf, routedNetworkOf } from './host-port.ts'

/** Bound of networks that took handshakes lately. */
const maxNetworks = 16_384
/** Bound of addresses from which a client was let in lately. */
const maxAdmitted = 16_384
/** Time within which agents and users come back. ms */
const admittedMs = 24 * 3_600_000
/** Greatest debt: a network that took more waits no longer. ms of handshakes */
const maxDebtMs = 500
/** Cost of a connection, and of its ClientHello: a client that comes again waits behind one that comes first. ms */
const askMs = 0.5

/** Time that a network asked for and took. The queues with its connections share this object. */
export interface Taken {
  ms: number
}

/**
 * Time that networks asked for and took of a server lately, and addresses that were let in. The time is in ms of
 * handshakes beyond half of their fair share. Both are bounded; the oldest entry is dropped first.
 */
export class SourceHistory {
  readonly #now: () => number
  /** by network, the latest last: on the scale of `freshMs` */
  readonly #taken = new Map<string, Taken>()
  /** by address, the latest last: time at which a client was let in */
  readonly #admitted = new Map<string, number>()
  #freshMs = 0

  /** @param now - ms, of a clock that is never set back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Records that a client was let in from this address. */
  letIn({ source }: Source): void {
    remember(this.#admitted, { key: source, value: this.#now(), max: maxAdmitted })
  }

  wasLetIn({ source }: Source): boolean {
    const at = this.#admitted.get(source)
    if (at === undefined) return false
    if (this.#now() - at <= admittedMs) return true
    this.#admitted.delete(source)
    return false
  }

  /** Time of a network that connects for the first time, and then sends its ClientHello. It grows as others take. ms */
  get freshMs(): number {
    return this.#freshMs + 2 * askMs
  }

  takenBy(network: string): Taken {
    const taken = this.#taken.get(network) ?? { ms: 0 }
    remember(this.#taken, { key: network, value: taken, max: maxNetworks })
    return taken
  }

  /** Counts a new connection of this network, or its request for a handshake. */
  ask(network: string): void {
    this.#add(network, askMs)
  }

  /** @param waiting - number of networks that share the time */
  charge(network: string, ms: number, waiting: number): void {
    this.#add(network, ms)
    this.#freshMs += ms / (2 * Math.max(1, waiting))
  }

  #add(network: string, ms: number): void {
    const taken = this.takenBy(network)
    taken.ms = Math.min(Math.max(taken.ms, this.#freshMs) + ms, this.#freshMs + maxDebtMs)
  }
}

/** The source whose turn and place a connection takes. */
export interface Source {
  /** an address, or the /64 of an IPv6 address */
  readonly source: string
  /** a /24 of IPv4, a /48 of IPv6 */
  readonly network: string
}

export function sourceOf(address: string): Source {
  return { source: networkOf(address), network: routedNetworkOf(address) }
}

function remember<Value>(
  map: Map<string, Value>,
  { key, value, max }: { readonly key: string; readonly value: Value; readonly max: number },
): void {
  map.delete(key)
  map.set(key, value)
  if (map.size <= max) return
  const [oldest] = map.keys()
  map.delete(oldest as string)
}
