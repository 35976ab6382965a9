export interface ReachabilityOptions {
  /** pause between checks while nothing is urgent. ms */
  readonly roundMs: number
  /** pause between checks while a safe call waits for its reply, and may have to be tried elsewhere soon. ms */
  readonly hurryMs: number
  /** age of an unanswered PING at which the peer is suspect: other candidates are asked first. ms */
  readonly suspectMs: number
  /** age at which the peer is unreachable: only other candidates are asked. ms */
  readonly unreachableMs: number
  /** age at which the connection is given up, with the calls on it. ms */
  readonly lostMs: number
}

/**
 * Unreachable means three rounds, and timers may fire early: about 1 s for a frozen process. A shorter time would
 * mistake a long garbage collection for a dead process. Lost means longer than a machine pauses while it is migrated,
 * and as long as an agentk and the table wait for a replica.
 */
export const defaultReachability: ReachabilityOptions = {
  roundMs: 250,
  hurryMs: 50,
  suspectMs: 300,
  unreachableMs: 700,
  lostMs: 10_000,
}

/** Decides by HTTP/2 PINGs whether a connection's other end lives. Pure: its owner sends PINGs, and passes the time. */
export class Reachability {
  readonly #options: ReachabilityOptions
  #isPinged = false
  /** silence since the PING, without the time that this process was late. ms */
  #unansweredMs = 0
  /** silence before a late check; counts at the next check, when everything that had come has been read. ms */
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

  /** Notes that bytes came from the other end. */
  received(): void {
    this.#isPinged = false
    this.#unansweredMs = 0
    this.#unreadMs = 0
  }

  /**
   * Must be called regularly. A late check alone does not prove silence, because this process was late too. It counts
   * as one round if nothing has come by the next check, so calls also end if every check is late.
   *
   * @param dueAt - when it should have been called
   * @returns true: a PING must be sent now; at most one is unanswered at a time
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
