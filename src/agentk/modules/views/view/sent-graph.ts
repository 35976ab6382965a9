import { readArcNumber } from '../../../../proto/graph-arcs.ts'
import type { GraphIds } from './graph-ids.ts'
import type { Graph } from './graph-walk.ts'
import type { Update } from './updates.ts'

/** Begin of the text of a Namespace's vertex. */
const namespaceStart = JSON.stringify(['', 'v1', 'namespaces', '']).slice(1, -1)

/** Vertices and arcs that a viewer has. */
export class SentGraph {
  readonly #ids: Pick<GraphIds, 'textOf'>
  readonly #vertices = new Set<number>()
  readonly #arcs = new Set<number>()

  constructor(ids: Pick<GraphIds, 'textOf'>) {
    this.#ids = ids
  }

  get vertices(): number {
    return this.#vertices.size
  }

  get arcs(): number {
    return this.#arcs.size
  }

  has(id: number): boolean {
    return this.#vertices.has(id)
  }

  /**
   * Writes the changes to `graph`. Nothing is removed that is not there, and no vertex before its arcs: clients of
   * GitLab would end.
   *
   * @returns true if there was room for all
   */
  write(update: Update, graph: Graph): boolean {
    const goes = this.#going(graph)
    return this.#take(update, graph, goes) && this.#give(update, graph)
  }

  /**
   * Returns the vertices to remove. With a Namespace, a client removes what is in it: this is removed, and sent again
   * later.
   */
  #going({ vertices }: Graph): ReadonlySet<number> {
    const removed = [...this.#vertices].filter((id) => !vertices.has(id))
    const texts = removed.map((id) => this.#ids.textOf(id)).filter((text) => text.startsWith(namespaceStart))
    if (texts.length === 0) return new Set(removed)
    const namespaces = new Set(texts.map((text) => partsOf(text)[4]))
    const inside = [...this.#vertices].filter((id) => namespaces.has(partsOf(this.#ids.textOf(id))[3]))
    const isNamespace = (id: number) => this.#ids.textOf(id).startsWith(namespaceStart)
    return new Set([...inside, ...removed.filter((id) => !isNamespace(id)), ...removed])
  }

  #take(update: Update, { arcs }: Graph, goes: ReadonlySet<number>): boolean {
    for (const arc of this.#arcs) {
      const { from, to, type } = readArcNumber(arc)
      if (arcs.has(arc) && !goes.has(from) && !goes.has(to)) continue
      if (!update.add(['darc', JSON.stringify([from, to, type])])) return false
      this.#arcs.delete(arc)
    }
    for (const id of goes) {
      if (!update.add(['dvx', String(id)])) return false
      this.#vertices.delete(id)
    }
    return true
  }

  #give(update: Update, { vertices, arcs }: Graph): boolean {
    for (const id of vertices) {
      if (this.#vertices.has(id)) continue
      if (!update.add(['svx', `[${id},${this.#ids.textOf(id)}]`])) return false
      this.#vertices.add(id)
    }
    for (const arc of arcs) {
      if (this.#arcs.has(arc)) continue
      const { from, to, type, isAbsent } = readArcNumber(arc)
      if (!update.add(['sarc', JSON.stringify(isAbsent ? [from, to, type, 1] : [from, to, type])])) return false
      this.#arcs.add(arc)
    }
    return true
  }
}

const partsOf = (text: string) => JSON.parse(`[${text}]`) as string[]
