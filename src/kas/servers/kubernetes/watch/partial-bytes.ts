import { KasError } from '../../../../lib/errors.ts'

/** What is kept of events that have not come whole, or not been sent, over all watches of one connection. */
export class PartialBytes {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @throws KasError MESSAGE_TOO_LARGE, then nothing was taken */
  take(bytes: number): void {
    const sum = this.#bytes + bytes
    if (sum > this.#maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: sum, maxBytes: this.#maxBytes })
    this.#bytes = sum
  }

  give(bytes: number): void {
    this.#bytes -= bytes
  }
}
