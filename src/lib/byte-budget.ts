import { KasError } from './errors.ts'

/** Counts bytes in memory. */
export interface ByteMeter {
  take(bytes: number): void
  give(bytes: number): void
}

export const noMeter: ByteMeter = { take: () => undefined, give: () => undefined }

/** Returns a meter that counts by `first`, which may refuse, and then by `second`. */
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

/**
 * Budget of bytes that are kept for clients, of one connection or of all of a key. Events that are incomplete or unsent
 * are such bytes.
 */
export class ByteBudget implements ByteMeter {
  readonly #maxBytes: number
  readonly #shared: ByteMeter | undefined
  #bytes = 0

  /** @param shared - a meter that counts the same bytes */
  constructor(maxBytes: number, shared?: ByteMeter) {
    this.#maxBytes = maxBytes
    this.#shared = shared
  }

  /** @throws KasError MESSAGE_TOO_LARGE, or the error of `shared`: then nothing was taken */
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
