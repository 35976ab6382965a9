import { KasError } from '../../lib/errors.ts'

/** Counts what is read of one part of an HTTP head, so that nothing is built beyond its limit. */
export class ValueBudget {
  readonly #limit: number
  readonly #unit: string
  #left: number

  /** @param options.unit - what is counted, in the plural */
  constructor({ limit, unit }: { limit: number; unit: string }) {
    this.#limit = limit
    this.#unit = unit
    this.#left = limit
  }

  /** One more is about to be built. @throws KasError HTTP_HEAD_TOO_LARGE */
  take(): void {
    if (this.#left === 0) throw new KasError({ code: 'HTTP_HEAD_TOO_LARGE', limit: this.#limit, unit: this.#unit })
    this.#left -= 1
  }
}
