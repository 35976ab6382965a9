import type { Clock } from '../../../../lib/clock.ts'

export interface BodyPaceOptions {
  /** bytes */
  readonly perSecond: number
  /** A body may pause for so long; what it sent faster before buys it no more. ms */
  readonly overMs: number
}

/** Whether a body comes slower than it should. */
export class BodyPace {
  readonly #clock: Pick<Clock, 'now'>
  readonly #options: BodyPaceOptions
  /** from when on it is slow, should nothing come. ms */
  #slowAt = Number.POSITIVE_INFINITY

  constructor(clock: Pick<Clock, 'now'>, options: BodyPaceOptions) {
    this.#clock = clock
    this.#options = options
  }

  /** From now on it is expected. */
  begin(): void {
    this.#slowAt = this.#clock.now() + this.#options.overMs
  }

  get isSlow(): boolean {
    return this.#clock.now() >= this.#slowAt
  }

  /** Passes the body on. */
  async *count(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    const { perSecond, overMs } = this.#options
    for await (const piece of body) {
      const bought = this.#slowAt + (piece.length * 1000) / perSecond
      this.#slowAt = Math.min(bought, this.#clock.now() + overMs)
      yield piece
    }
  }
}
