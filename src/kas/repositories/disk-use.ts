/** Bytes of folders, as each was measured last. */
export class DiskUse {
  readonly #bytes = new Map<object, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  set(folder: object, bytes: number): void {
    this.#total += bytes - (this.#bytes.get(folder) ?? 0)
    this.#bytes.set(folder, bytes)
  }

  /** It is gone. */
  delete(folder: object): void {
    this.#total -= this.#bytes.get(folder) ?? 0
    this.#bytes.delete(folder)
  }
}
