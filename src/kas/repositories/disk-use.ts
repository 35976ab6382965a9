import { Counter } from '../../lib/counter.ts'

/** Bytes of folders as last measured, in total and per source on whose behalf they are kept. */
export class DiskUse {
  readonly #folders = new Map<object, { readonly source: unknown; readonly bytes: number }>()
  readonly #bySource = new Counter<unknown>()

  get total(): number {
    return this.#bySource.total
  }

  of(source: unknown): number {
    return this.#bySource.of(source)
  }

  set(folder: object, source: unknown, bytes: number): void {
    this.delete(folder)
    this.#folders.set(folder, { source, bytes })
    this.#bySource.add(source, bytes)
  }

  /** Stops counting the folder, which was removed. */
  delete(folder: object): void {
    const measured = this.#folders.get(folder)
    if (!measured) return
    this.#folders.delete(folder)
    this.#bySource.add(measured.source, -measured.bytes)
  }
}
