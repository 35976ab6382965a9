import { isDeepStrictEqual } from 'node:util'

/** It is not swept before it holds so many. */
const minSize = 16_384

/** Equal values become one, which takes the room of one. They are never changed. */
export class Interned {
  readonly #texts = new Map<string, string>()
  readonly #values = new Map<number, object>()
  #mostBeforeSweep = minSize
  #last: { readonly value: object; readonly kept: object } | undefined

  get size(): number {
    return this.#texts.size + this.#values.size
  }

  /** It is twice the size that it had when it was last swept, or let grow. */
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
   * @param form - of equal values the same JSON. It is not kept: values that differ may share a hash, and then the last
   * one alone is shared.
   */
  value<T extends object>(value: T, form: unknown = value): T {
    const hash = hashOf(JSON.stringify(form))
    const known = this.#values.get(hash)
    if (isDeepStrictEqual(known, value)) return known as T
    this.#values.set(hash, value)
    return value
  }

  /** As `value`, of what often comes several times in a row. */
  repeated<T extends object>(value: T): T {
    if (this.#last?.value !== value) this.#last = { value, kept: this.value(value) }
    return this.#last.kept as T
  }

  /** What is not among those that live goes. */
  sweep(live: ReadonlySet<string | object>): void {
    this.#last = undefined
    for (const text of this.#texts.keys()) if (!live.has(text)) this.#texts.delete(text)
    for (const [hash, value] of this.#values) if (!live.has(value)) this.#values.delete(hash)
    this.letGrow()
  }

  /** There is little that could go. */
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
