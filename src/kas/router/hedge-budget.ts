/** Hedges a call earns: so that they never feed an overload (doc/routing.md "Another replica holds the agent"). */
const sharePerCall = 0.05
const burst = 50

/** How many calls may be tried a second way while the first has not answered. */
export class HedgeBudget {
  #tokens = burst

  /** A call began. */
  earn(): void {
    this.#tokens = Math.min(burst, this.#tokens + sharePerCall)
  }

  /** @returns false: there is no hedge to spend */
  spend(): boolean {
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}
