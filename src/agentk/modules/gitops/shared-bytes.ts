import { Counter } from '../../../lib/counter.ts'

/** Bytes that are kept for many: each has its share of them in any case, and more while there is room. */
export class SharedBytes {
  readonly maxBytes: number
  readonly #owners: () => number
  readonly #taken = new Counter<object>()

  /** @param owners - how many share them */
  constructor(maxBytes: number, owners: () => number) {
    this.maxBytes = maxBytes
    this.#owners = owners
  }

  /** In place of what `owner` has had. @returns whether it has it now; else it has what it had */
  set(owner: object, bytes: number): boolean {
    const before = this.#taken.of(owner)
    const isShare = bytes <= this.maxBytes / Math.max(1, this.#owners())
    if (bytes > before && !isShare && this.#taken.total - before + bytes > this.maxBytes) return false
    this.#taken.add(owner, bytes - before)
    return true
  }

  release(owner: object): void {
    this.#taken.delete(owner)
  }
}
