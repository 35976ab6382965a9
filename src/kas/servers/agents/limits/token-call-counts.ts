/** Calls that each token began within a clock minute. */
export interface MinuteCounts {
  /** minutes since 1970 */
  readonly minute: number
  /** by hash of the token */
  readonly counts: ReadonlyMap<string, number>
}

const minuteMs = 60_000
/** Tokens that are counted in one minute: calls of further tokens are not counted. */
const maxCountedTokens = 100_000
/** Refused tokens are counted apart: between this many and twice as many are kept. */
const maxRefusedTokens = 10_000
/** Tokens in one report. */
const maxReportedTokens = 1000

/**
 * Counts the calls that each token began in this clock minute, here and as peers report. `Authenticator` refuses calls
 * over the limit. Counts end with the minute.
 */
export class TokenCallCounts {
  readonly #clock: { now(): number }
  #minute = 0
  #own = new Map<string, number>()
  #refused = new Map<string, number>()
  /** tokens from before `#refused` was last full: deleting a Map's first entry again and again is slow */
  #refusedBefore = new Map<string, number>()
  /** counts of peers, by the peer's name */
  #peers = new Map<string, Map<string, number>>()
  /** counts of this replica, as last reported */
  #reported = new Map<string, number>()

  constructor(clock: { now(): number }) {
    this.#clock = clock
  }

  /** Counts a call here. @returns the calls at all replicas, as far as known */
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
    for (const counts of this.#peers.values()) all += counts.get(tokenHash) ?? 0
    return all
  }

  /** Notes that the token of a counted call was refused: it is never reported, and takes no room from others. */
  refused(tokenHash: string): void {
    this.#turn()
    const own = this.#own.get(tokenHash)
    if (own === undefined) return
    this.#own.delete(tokenHash)
    this.#reported.delete(tokenHash)
    if (this.#refused.size >= maxRefusedTokens) {
      this.#refusedBefore = this.#refused
      this.#refused = new Map()
    }
    this.#refused.set(tokenHash, own)
  }

  /** Replaces a peer's earlier counts by its report, if the minute is the same. */
  merge(name: string, { minute, counts }: MinuteCounts): void {
    this.#turn()
    if (minute !== this.#minute) return // its clock is off, or the report is late: each replica then counts alone
    const known = this.#peers.get(name) ?? new Map<string, number>()
    this.#peers.set(name, known)
    for (const [hash, count] of counts) if (known.size < maxCountedTokens) known.set(hash, count)
  }

  /** Counts of this replica of at least `from` that changed since the last report, the highest first. */
  changes(from: number): MinuteCounts | undefined {
    this.#turn()
    const changed = [...this.#own].filter(([hash, count]) => count >= from && this.#reported.get(hash) !== count)
    if (changed.length === 0) return undefined
    const counts = new Map(changed.sort(([, a], [, b]) => b - a).slice(0, maxReportedTokens))
    for (const [hash, count] of counts) this.#reported.set(hash, count)
    return { minute: this.#minute, counts }
  }

  #turn(): void {
    const minute = Math.floor(this.#clock.now() / minuteMs)
    if (minute === this.#minute) return
    this.#minute = minute
    this.#own = new Map()
    this.#refused = new Map()
    this.#refusedBefore = new Map()
    this.#peers = new Map()
    this.#reported = new Map()
  }
}
