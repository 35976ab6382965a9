import { networkOf, routedNetworkOf } from './host-port.ts'

/** Networks of which it is known that they took handshakes lately. */
const maxNetworks = 16_384
/** Addresses of which somebody was let in lately. */
const maxAdmitted = 16_384
/** Agents and users come back within it. ms */
const admittedMs = 24 * 3_600_000
/** A network that took so much lately waits no longer than one that took more. ms of handshakes */
const maxDebtMs = 500
/** A connection counts as so much, and so does its ClientHello: who comes again waits behind who comes first. ms */
const askMs = 0.5

/** The time that a network asked for and took. The queues that have its connections see it grow. */
export interface Taken {
  ms: number
}

/**
 * The time that networks asked for and took of a server lately, in ms of handshakes beyond a half of their fair share, and which
 * addresses were let in. Both are bounded; the oldest is forgotten first.
 */
export class SourceHistory {
  readonly #now: () => number
  /** the latest last, by network: on the scale of `freshMs` */
  readonly #taken = new Map<string, Taken>()
  /** the latest last: when somebody was let in */
  readonly #admitted = new Map<string, number>()
  #freshMs = 0

  /** @param now - ms, of a clock that is never set back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Somebody was let in from this address. */
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

  /** A network has so much that connects for the first time, and then speaks. It grows as others take. */
  get freshMs(): number {
    return this.#freshMs + 2 * askMs
  }

  takenBy(network: string): Taken {
    const taken = this.#taken.get(network) ?? { ms: 0 }
    remember(this.#taken, { key: network, value: taken, max: maxNetworks })
    return taken
  }

  /** A connection of this network has come, or asks for a handshake. */
  ask(network: string): void {
    this.#add(network, askMs)
  }

  /** @param waiting - networks that share the time */
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
  /** an address, or the /64 of one of IPv6 */
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
