import type { Clock } from '../../../lib/clock.ts'

export interface SeenHashesOptions {
  /** how long a hash is known at least, in ms; twice as long at most */
  readonly keptMs?: number
}

const defaultKeptMs = 60_000
/** of each half, which has 1 MiB: with a hundred thousand hashes in it one of 20,000 others counts as known */
const bitsLog2 = 23
const hexDigits = 6

/**
 * Which hashes were added lately, in a room that does not grow: a few that were not seem to be among them. Nothing is
 * kept before the first is added.
 */
export class SeenHashes {
  readonly #clock: Clock
  readonly #keptMs: number
  #current: Uint8Array | undefined
  #previous: Uint8Array | undefined
  #turnedAt = 0

  constructor(components: { clock: Clock }, { keptMs = defaultKeptMs }: SeenHashesOptions = {}) {
    this.#clock = components.clock
    this.#keptMs = keptMs
  }

  /** @param hash - of `tokenHash` */
  add(hash: string): void {
    this.#turn()
    this.#current ??= new Uint8Array(1 << (bitsLog2 - 3))
    for (const bit of bitsOf(hash)) this.#current[bit >> 3] = (this.#current[bit >> 3] as number) | (1 << (bit & 7))
  }

  has(hash: string): boolean {
    this.#turn()
    return [this.#current, this.#previous].some(
      (bits) => bits && bitsOf(hash).every((bit) => (bits[bit >> 3] as number) & (1 << (bit & 7))),
    )
  }

  /** A clock that was put back begins anew too. */
  #turn(): void {
    const age = this.#clock.now() - this.#turnedAt
    if (age >= 0 && age < this.#keptMs) return
    this.#previous = age >= 0 && age < 2 * this.#keptMs ? this.#current : undefined
    this.#current = undefined
    this.#turnedAt = this.#clock.now()
  }
}

function bitsOf(hash: string): number[] {
  const at = (i: number) => Number.parseInt(hash.slice(i * hexDigits, (i + 1) * hexDigits), 16) & ((1 << bitsLog2) - 1)
  return [at(0), at(1), at(2)]
}
