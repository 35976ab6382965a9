import type { Clock } from '../../../lib/clock.ts'

export interface SeenHashesOptions {
  /** the shortest time that a hash is known, in ms; the longest is twice that */
  readonly keptMs?: number
}

const defaultKeptMs = 60_000
/** bits of each half, 1 MiB: with a hundred thousand hashes in it, one of 20,000 others counts as known */
const bitsLog2 = 23
const hexDigits = 6

/**
 * Hashes that were added lately, in bounded memory. A few that were not added count as added. It takes no memory before
 * the first is added.
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

  /** @param hash - from `tokenHash` */
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

  /** Drops the older half. A clock that was set back drops both. */
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
