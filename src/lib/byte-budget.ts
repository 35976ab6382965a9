import { KasError } from './errors.ts'

/** Counts bytes that are kept. */
export interface ByteMeter {
  take(bytes: number): void
  give(bytes: number): void
}

export const noMeter: ByteMeter = { take: () => undefined, give: () => undefined }

/** @returns counts them by `first`, which may refuse them, and then by `second` */
export function countedByBoth(first: ByteMeter, second: ByteMeter): ByteMeter {
  return {
    take: (bytes) => {
      first.take(bytes)
      second.take(bytes)
    },
    give: (bytes) => {
      first.give(bytes)
      second.give(bytes)
    },
  }
}

/** What is kept for clients, such as events that have not come whole or not been sent: of one connection, or of all of a key. */
export class ByteBudget implements ByteMeter {
  readonly #maxBytes: number
  readonly #shared: ByteMeter | undefined
  #bytes = 0

  /** @param shared - counts them too */
  constructor(maxBytes: number, shared?: ByteMeter) {
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
