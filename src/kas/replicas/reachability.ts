export interface ReachabilityOptions {
  /** between looks while nothing is urgent. ms */
  readonly roundMs: number
  /** between looks while a safe call waits for its reply, which is then to go another way soon. ms */
  readonly hurryMs: number
  /** an unanswered PING makes the replica suspect: other ways are tried first. ms */
  readonly suspectMs: number
  /** and then unreachable: other ways are tried alone. ms */
  readonly unreachableMs: number
  /** and then its connection is given up, and with it what has no other way. ms */
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
  #silentMs = 0
  /** of silence before a late look: counted at the next one, for only then all that had come has been read */
  #unreadMs = 0
  #lookedAt: number | undefined

  constructor(options: ReachabilityOptions = defaultReachability) {
    this.#options = options
  }

  get isUnreachable(): boolean {
    return this.#silentMs >= this.#options.unreachableMs
  }

  get isLost(): boolean {
    return this.#silentMs >= this.#options.lostMs
  }

  isSuspect(now: number): boolean {
    if (!this.#isPinged || this.#lookedAt === undefined) return false
    return this.#silentMs + now - this.#lookedAt >= this.#options.suspectMs
  }

  /** Anything came from the other end. */
  heard(): void {
    this.#isPinged = false
    this.#silentMs = 0
    this.#unreadMs = 0
  }

  /**
   * To be called again and again. A look for which this process itself was late says nothing about the other one by
   * itself: it counts as one round, if nothing has come by the next. So calls end also where every look is late.
   *
   * @param dueAt - when it should have been called
   * @returns whether a PING is to be sent now; one is outstanding at the most
   */
  look(now: number, dueAt: number): boolean {
    const { roundMs } = this.#options
    const isLate = now - dueAt > roundMs / 2
    if (this.#isPinged) {
      const passedMs = now - (this.#lookedAt ?? now)
      this.#silentMs += this.#unreadMs + (isLate ? 0 : passedMs)
      this.#unreadMs = isLate ? Math.min(passedMs, roundMs) : 0
    }
    this.#lookedAt = now
    if (this.#isPinged) return false
    this.#isPinged = true
    return true
  }
}
