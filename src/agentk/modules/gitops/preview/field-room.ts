import type { ShownObject } from './changed-objects.ts'
import type { ShownField } from './shown-fields.ts'

/** Limit of the fields of all objects of one preview, with paths and values: no answer has more. bytes */
const maxFieldBytes = 4 * 1024 * 1024
/** Bytes of a field beside its texts, about. */
const fieldBytes = 64

interface Counted {
  readonly object: ShownObject
  readonly bytes: number
}

/**
 * Bounds the memory that fields of a preview take before its answer is made. Where there is no room, the fields of the
 * least important objects are counted, and no longer listed.
 */
export class FieldRoom {
  readonly #maxBytes: number
  readonly #rankOf: (object: ShownObject) => number
  /** objects with fields, by rank */
  readonly #objects = new Map<number, Counted[]>()
  #bytes = 0

  /** @param rankOf - the most important objects have the lowest */
  constructor(rankOf: (object: ShownObject) => number, maxBytes: number = maxFieldBytes) {
    this.#rankOf = rankOf
    this.#maxBytes = maxBytes
  }

  /** Adds an object. Its fields, or those of others, are removed from their objects if there is no room. */
  add(object: ShownObject): void {
    const bytes = bytesOf(object.field) + bytesOf(object.ignored)
    if (bytes === 0) return
    const rank = this.#rankOf(object)
    const objects = this.#objects.get(rank) ?? []
    this.#objects.set(rank, objects)
    objects.push({ object, bytes })
    this.#bytes += bytes
    while (this.#bytes > this.#maxBytes) this.#removeLast()
  }

  #removeLast(): void {
    const rank = Math.max(...this.#objects.keys())
    const objects = this.#objects.get(rank) ?? []
    const last = objects.pop()
    if (objects.length === 0) this.#objects.delete(rank)
    if (!last) return
    const { object, bytes } = last
    this.#bytes -= bytes
    object.more = (object.more ?? 0) + (object.field ?? []).length
    object.moreIgnored = (object.moreIgnored ?? 0) + (object.ignored ?? []).length
    object.field = []
    object.ignored = []
  }
}

function bytesOf(fields: readonly ShownField[] = []): number {
  const texts = fields.flatMap(({ path = '', before = '', after = '', rule = '' }) => [path, before, after, rule])
  return texts.reduce((all, text) => all + text.length, fields.length * fieldBytes)
}
