export interface ReachabilityOptions {
  /** between checks while nothing is urgent. ms */
  readonly roundMs: number
  /** between checks while a safe call waits for its reply, which is then to be tried elsewhere soon. ms */
  readonly hurryMs: number
  /** an unanswered PING makes the peer suspect: other candidates are asked first. ms */
  readonly suspectMs: number
  /** and then unreachable: other candidates alone are asked. ms */
  readonly unreachableMs: number
  /** and then its connection is given up, and with it the calls that wait for it. ms */
  readonly lostMs: number
}

/**
 * Unreachable: three rounds, of timers that may fire early, so about 1 s for a frozen process; what is shorter would
 * take a long garbage collection for a death. Lost: longer than machines pause that are moved, and as long as an agent
 * of ours, and the table, wait for a replica.
 */
export const defaultReachability: ReachabilityOptions = {
  roundMs: 250,
  hurryMs: 50,
  suspectMs: 300,
  unreachableMs: 700,
  lostMs: 10_000,
}

/** Whether the other end of a connection lives, by HTTP/2 PING. Pure: its owner sends, and says what time it is. */
export class Reachability {
  readonly #options: ReachabilityOptions
  #isPinged = false
  /** of silence since the PING, without what this process itself was late */
  #unansweredMs = 0
  /** of silence before a late check: counted at the next one, for only then all that had come has been read */
  #unreadMs = 0
  #checkedAt: number | undefined

  constructor(options: ReachabilityOptions = defaultReachability) {
    this.#options = options
  }

  get isUnreachable(): boolean {
    return this.#unansweredMs >= this.#options.unreachableMs
  }

  get isLost(): boolean {
    return this.#unansweredMs >= this.#options.lostMs
  }

  isSuspect(now: number): boolean {
    if (!this.#isPinged || this.#checkedAt === undefined) return false
    return this.#unansweredMs + now - this.#checkedAt >= this.#options.suspectMs
  }

  /** Anything came from the other end. */
  received(): void {
    this.#isPinged = false
    this.#unansweredMs = 0
    this.#unreadMs = 0
  }

  /**
   * To be called again and again. A check for which this process itself was late says nothing about the other one by
   * itself: it counts as one round, if nothing has come by the next. So calls end also where every check is late.
   *
   * @param dueAt - when it should have been called
   * @returns whether a PING is to be sent now; one is outstanding at the most
   */
  check(now: number, dueAt: number): boolean {
    const { roundMs } = this.#options
    const isLate = now - dueAt > roundMs / 2
    if (this.#isPinged) {
      const passedMs = now - (this.#checkedAt ?? now)
      this.#unansweredMs += this.#unreadMs + (isLate ? 0 : passedMs)
      this.#unreadMs = isLate ? Math.min(passedMs, roundMs) : 0
    }
    this.#checkedAt = now
    if (this.#isPinged) return false
    this.#isPinged = true
    return true
  }
}
