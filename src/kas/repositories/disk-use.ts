/** Bytes of folders, as each was measured last, and on whose behalf they are kept. */
export class DiskUse {
  readonly #folders = new Map<object, { readonly source: unknown; readonly bytes: number }>()
  readonly #bySource = new Map<unknown, number>()
  #total = 0

  get total(): number {
    return this.#total
  }

  of(source: unknown): number {
    return this.#bySource.get(source) ?? 0
  }

  set(folder: object, source: unknown, bytes: number): void {
    this.delete(folder)
    this.#folders.set(folder, { source, bytes })
    this.#add(source, bytes)
  }

  /** It is gone. */
  delete(folder: object): void {
    const measured = this.#folders.get(folder)
    if (!measured) return
    this.#folders.delete(folder)
    this.#add(measured.source, -measured.bytes)
  }

  #add(source: unknown, bytes: number): void {
    this.#total += bytes
    const left = this.of(source) + bytes
    if (left > 0) this.#bySource.set(source, left)
    else this.#bySource.delete(source)
  }
}
