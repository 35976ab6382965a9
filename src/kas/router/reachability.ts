export interface ReachabilityOptions {
  /** between rounds. ms */
  readonly roundMs: number
  /** an unanswered PING makes the replica suspect: other ways are tried first. ms */
  readonly suspectMs: number
  /** rounds without a sign of life, after which it is unreachable */
  readonly silentRounds: number
}

/** About 1 s for a frozen process; what is shorter would take a long garbage collection for a death. */
export const defaultReachability: ReachabilityOptions = { roundMs: 250, suspectMs: 300, silentRounds: 3 }

/** Whether the other end of a connection lives, by HTTP/2 PING. Pure: its owner sends, and says what time it is. */
export class Reachability {
  readonly #options: ReachabilityOptions
  #pingSentAt: number | undefined
  #lastRoundAt: number | undefined
  #silent = 0

  constructor(options: ReachabilityOptions = defaultReachability) {
    this.#options = options
  }

  get isUnreachable(): boolean {
    return this.#silent >= this.#options.silentRounds
  }

  isSuspect(now: number): boolean {
    return this.isUnreachable || (this.#pingSentAt !== undefined && now - this.#pingSentAt >= this.#options.suspectMs)
  }

  /** Anything came from the other end. */
  heard(): void {
    this.#pingSentAt = undefined
    this.#silent = 0
  }

  /**
   * To be called every `roundMs`. A round in which this process itself was late says nothing about the other one.
   *
   * @returns whether a PING is to be sent now; one is outstanding at the most
   */
  round(now: number): boolean {
    const { roundMs } = this.#options
    const lateMs = this.#lastRoundAt === undefined ? 0 : now - this.#lastRoundAt - roundMs
    this.#lastRoundAt = now
    if (this.#pingSentAt === undefined) {
      this.#pingSentAt = now
      return true
    }
    if (lateMs > roundMs / 2) this.#pingSentAt += lateMs
    else this.#silent++
    return false
  }
}
