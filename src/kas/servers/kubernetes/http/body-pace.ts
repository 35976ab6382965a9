import type { Clock } from '../../../../lib/clock.ts'

export interface BodyPaceOptions {
  /** bytes */
  readonly perSecond: number
  /** longest pause of a body; faster bytes before it do not allow a longer one. ms */
  readonly overMs: number
}

/** Detects a body that comes too slowly. */
export class BodyPace {
  readonly #clock: Pick<Clock, 'now'>
  readonly #options: BodyPaceOptions
  /** when the body becomes slow unless bytes come. ms */
  #slowAt = Number.POSITIVE_INFINITY

  constructor(clock: Pick<Clock, 'now'>, options: BodyPaceOptions) {
    this.#clock = clock
    this.#options = options
  }

  /** Starts the measurement: the body is expected from now on. */
  begin(): void {
    this.#slowAt = this.#clock.now() + this.#options.overMs
  }

  get isSlow(): boolean {
    return this.#clock.now() >= this.#slowAt
  }

  /** Passes the body through, and measures it. */
  async *count(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
    const { perSecond, overMs } = this.#options
    for await (const piece of body) {
      const bought = this.#slowAt + (piece.length * 1000) / perSecond
      this.#slowAt = Math.min(bought, this.#clock.now() + overMs)
      yield piece
    }
  }
}
