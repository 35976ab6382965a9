import { randomInt } from 'node:crypto'
import type { Test } from 'tap'

/** Reproducible random cases: the seed is printed, and KAS_SEED sets it. */
export class Seeded {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  static for(t: Pick<Test, 'comment'>): Seeded {
    const seed = Number(process.env.KAS_SEED ?? randomInt(2 ** 32))
    t.comment(`KAS_SEED=${seed}`)
    return new Seeded(seed)
  }

  /** Returns a number from 0 to under 1: mulberry32. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** Returns an integer from 0 to `below` - 1. */
  int(below: number): number {
    return Math.floor(this.fraction() * below)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(values: readonly [T, ...T[]] | readonly T[]): T {
    return values[this.int(values.length)] as T
  }

  list<T>(maxLength: number, make: (index: number) => T): T[] {
    return Array.from({ length: this.int(maxLength + 1) }, (_, index) => make(index))
  }

  bytes(maxLength: number): Buffer {
    return Buffer.from(this.list(maxLength, () => this.int(256)))
  }

  /** Returns a text whose characters have one to four bytes in UTF-8. */
  text(maxLength: number): string {
    return this.list(maxLength, () => this.pick([...'aZ0-/:. %é\u0000ü€語😀'])).join('')
  }

  shuffled<T>(values: readonly T[]): T[] {
    return values
      .map((value) => ({ value, at: this.fraction() }))
      .sort((a, b) => a.at - b.at)
      .map(({ value }) => value)
  }
}
