import { isDeepStrictEqual } from 'node:util'

/** A smaller table is not swept. */
const minSize = 16_384

/** Replaces equal values by one, which saves memory. Values are never changed. */
export class Interned {
  readonly #texts = new Map<string, string>()
  readonly #values = new Map<number, object>()
  #mostBeforeSweep = minSize
  #last: { readonly value: object; readonly kept: object } | undefined

  get size(): number {
    return this.#texts.size + this.#values.size
  }

  /** True if the table has doubled since the last sweep or `letGrow`. */
  get isFull(): boolean {
    return this.size >= this.#mostBeforeSweep
  }

  text(text: string): string {
    const known = this.#texts.get(text)
    if (known !== undefined) return known
    this.#texts.set(text, text)
    return text
  }

  /**
   * @param form - equal values have the same JSON of it. The JSON is not kept: different values may share a hash, and
   * then only the last one is shared.
   */
  value<T extends object>(value: T, form: unknown = value): T {
    const hash = hashOf(JSON.stringify(form))
    const known = this.#values.get(hash)
    if (isDeepStrictEqual(known, value)) return known as T
    this.#values.set(hash, value)
    return value
  }

  /** Does the same as `value`, faster for values that come several times in a row. */
  repeated<T extends object>(value: T): T {
    if (this.#last?.value !== value) this.#last = { value, kept: this.value(value) }
    return this.#last.kept as T
  }

  /** Removes values that are not among the live ones. */
  sweep(live: ReadonlySet<string | object>): void {
    this.#last = undefined
    for (const text of this.#texts.keys()) if (!live.has(text)) this.#texts.delete(text)
    for (const [hash, value] of this.#values) if (!live.has(value)) this.#values.delete(hash)
    this.letGrow()
  }

  /** Puts the next sweep off: it could remove little. */
  letGrow(): void {
    this.#mostBeforeSweep = Math.max(minSize, 2 * this.size)
  }
}

/** FNV-1a, 32 bits. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5 | 0
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}
