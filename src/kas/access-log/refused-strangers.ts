import type { Clock } from '../../lib/clock.ts'
import { networkOf } from '../../lib/host-port.ts'

/** What was refused of an address by which nobody was let in. */
export interface Refused {
  readonly event: 'refused' | 'agent_refused'
  /** a code of doc/errors.md, or an outcome */
  readonly reason: string
  readonly address: string
}

/** After the first line of an address. ms */
const pauseMs = 60_000
/** Addresses that are counted one by one in a minute, networks of IPv6: those beyond are counted as one. */
export const maxStrangers = 1000
const others = 'others'

interface Counted {
  last: Refused
  count: number
  /** ms since 1970 */
  since: number
}

export interface RefusedStrangersComponents {
  readonly clock: Clock
  /** @param since - of the first that is counted, ms since 1970 */
  readonly write: (refused: Refused, count: number, since: number) => void
}

/** Refusals of strangers: the first of an address at once, the others of a minute as a line with their number. */
export class RefusedStrangers {
  readonly #components: RefusedStrangersComponents
  readonly #counted = new Map<string, Counted>()
  readonly #cancels = new Set<() => void>()

  constructor(components: RefusedStrangersComponents) {
    this.#components = components
  }

  /** @returns whether it is the first of its address in a while, and not counted: its line is the caller's to write */
  add(refused: Refused): boolean {
    const now = this.#components.clock.now()
    const own = `${refused.event} ${networkOf(refused.address)}`
    const key = this.#counted.has(own) || this.#counted.size < maxStrangers ? own : others
    const counted = this.#counted.get(key)
    if (counted) {
      if (counted.count === 0) counted.since = now
      counted.count += 1
      counted.last = key === others ? { ...refused, address: others } : refused
      return false
    }
    const isFirst = key !== others
    this.#counted.set(key, {
      last: isFirst ? refused : { ...refused, address: others },
      count: isFirst ? 0 : 1,
      since: now,
    })
    this.#reportLater(key)
    return isFirst
  }

  /** Reports what is counted by now. */
  stop(): void {
    for (const key of [...this.#counted.keys()]) this.#report(key)
    for (const cancel of this.#cancels) cancel()
    this.#cancels.clear()
    this.#counted.clear()
  }

  #reportLater(key: string): void {
    const cancel = this.#components.clock.after(pauseMs, () => {
      this.#cancels.delete(cancel)
      this.#report(key)
    })
    this.#cancels.add(cancel)
  }

  /** Whoever was silent for a minute is forgotten. */
  #report(key: string): void {
    const counted = this.#counted.get(key)
    if (!counted || counted.count === 0) return void this.#counted.delete(key)
    this.#components.write(counted.last, counted.count, counted.since)
    counted.count = 0
    this.#reportLater(key)
  }
}
