import { KasError } from './errors.ts'

/** What is kept for clients, such as events that have not come whole or not been sent: of one connection, or of all of a key. */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #shared: Pick<ByteBudget, 'take' | 'give'> | undefined
  #bytes = 0

  /** @param shared - counts them too */
  constructor(maxBytes: number, shared?: Pick<ByteBudget, 'take' | 'give'>) {
    this.#maxBytes = maxBytes
    this.#shared = shared
  }

  /** @throws KasError MESSAGE_TOO_LARGE, or what `shared` throws: then nothing was taken */
  take(bytes: number): void {
    const sum = this.#bytes + bytes
    if (sum > this.#maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: sum, maxBytes: this.#maxBytes })
    this.#shared?.take(bytes)
    this.#bytes = sum
  }

  give(bytes: number): void {
    this.#shared?.give(bytes)
    this.#bytes -= bytes
  }
}
