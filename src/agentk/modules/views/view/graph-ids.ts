import { viewsBounds } from '../../../../proto/views-json.ts'

/** Text of a vertex: JSON of group, version, plural, namespace and name, as in `GraphVertex` after the id. */
export type VertexText = string

/** Small numbers for vertices; numbers of removed vertices are used again. */
export class GraphIds {
  readonly #byText = new Map<VertexText, number>()
  readonly #texts: VertexText[] = []
  readonly #free: number[] = []

  get size(): number {
    return this.#byText.size
  }

  /** @throws Error: there are too many vertices at once */
  of(text: VertexText): number {
    const known = this.#byText.get(text)
    if (known !== undefined) return known
    const id = this.#free.pop() ?? this.#texts.length
    if (id >= viewsBounds.maxVertexIds) throw new Error(`more than ${viewsBounds.maxVertexIds} vertices at once`)
    this.#byText.set(text, id)
    this.#texts[id] = text
    return id
  }

  textOf(id: number): VertexText {
    return this.#texts[id] as VertexText
  }

  /** Frees the numbers of all other vertices. */
  keep(isKept: (id: number) => boolean): void {
    for (const [text, id] of this.#byText) {
      if (isKept(id)) continue
      this.#byText.delete(text)
      this.#texts[id] = ''
      this.#free.push(id)
    }
  }
}
