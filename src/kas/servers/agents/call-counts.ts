/** How often each token began a call within a clock minute. */
export interface MinuteCounts {
  /** since 1970 */
  readonly minute: number
  /** by hash of the token */
  readonly counts: ReadonlyMap<string, number>
}

const minuteMs = 60_000
/** Tokens that are counted in one minute: beyond it others pass uncounted. */
const maxCountedTokens = 100_000
/** Tokens that were refused, apart from those: at least so many are known, at the most twice as many. */
const maxRefusedTokens = 10_000
/** tokens in one telling */
const maxToldTokens = 1000

/** Calls that each token began in this clock minute: here, and as other replicas tell. Forgotten with the minute. */
export class CallCounts {
  readonly #clock: { now(): number }
  #minute = 0
  #own = new Map<string, number>()
  #refused = new Map<string, number>()
  /** those that were refused before that one was full: a Map that loses its first entry time and again is slow */
  #refusedBefore = new Map<string, number>()
  /** by name of the replica */
  #others = new Map<string, Map<string, number>>()
  #told = new Map<string, number>()

  constructor(clock: { now(): number }) {
    this.#clock = clock
  }

  /** Counts a call here. @returns the calls of all replicas, as far as they are known */
  add(tokenHash: string): number {
    this.#turn()
    for (const refused of [this.#refused, this.#refusedBefore]) {
      const count = refused.get(tokenHash)
      if (count === undefined) continue
      refused.set(tokenHash, count + 1)
      return count + 1
    }
    const own = (this.#own.get(tokenHash) ?? 0) + 1
    if (own > 1 || this.#own.size < maxCountedTokens) this.#own.set(tokenHash, own)
    let all = own
    for (const counts of this.#others.values()) all += counts.get(tokenHash) ?? 0
    return all
  }

  /** The token of a call that was counted is not good: it is counted here alone, and takes no room from others. */
  refused(tokenHash: string): void {
    this.#turn()
    const own = this.#own.get(tokenHash)
    if (own === undefined) return
    this.#own.delete(tokenHash)
    this.#told.delete(tokenHash)
    if (this.#refused.size >= maxRefusedTokens) {
      this.#refusedBefore = this.#refused
      this.#refused = new Map()
    }
    this.#refused.set(tokenHash, own)
  }

  /** What another replica has counted so far in the minute that it names; what it told before is included. */
  hear(name: string, { minute, counts }: MinuteCounts): void {
    this.#turn()
    if (minute !== this.#minute) return // its clock is off, or the news is late: it counts for itself
    const known = this.#others.get(name) ?? new Map<string, number>()
    this.#others.set(name, known)
    for (const [hash, count] of counts) if (known.size < maxCountedTokens) known.set(hash, count)
  }

  /** Own counts of at least `from` that have changed since they were told last, the highest first. */
  news(from: number): MinuteCounts | undefined {
    this.#turn()
    const changed = [...this.#own].filter(([hash, count]) => count >= from && this.#told.get(hash) !== count)
    if (changed.length === 0) return undefined
    const counts = new Map(changed.sort(([, a], [, b]) => b - a).slice(0, maxToldTokens))
    for (const [hash, count] of counts) this.#told.set(hash, count)
    return { minute: this.#minute, counts }
  }

  #turn(): void {
    const minute = Math.floor(this.#clock.now() / minuteMs)
    if (minute === this.#minute) return
    this.#minute = minute
    this.#own = new Map()
    this.#refused = new Map()
    this.#refusedBefore = new Map()
    this.#others = new Map()
    this.#told = new Map()
  }
}
