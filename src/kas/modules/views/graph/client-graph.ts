import type { ByteBudget } from '../../../../lib/byte-budget.ts'
import { Counter } from '../../../../lib/counter.ts'
import { KasError } from '../../../../lib/errors.ts'
import { arcNumber, bothArcNumbers, readArcNumber } from '../../../../proto/graph-arcs.ts'
import { type GraphArc, viewsBounds } from '../../../../proto/views-json.ts'
import { cutWarning, emptyMessage, type GraphUpdate, graphMessages, vertexJson, type Warning } from './graph-message.ts'

/** Memory of an arc, with the counts of its vertices, and of a vertex beside its JSON, in bytes. */
const arcBytes = 80
const vertexBytes = 96
const { maxVertices, maxArcs } = viewsBounds

/** Vertices by id, as JSON, and arcs between them, as numbers. */
class Graph {
  readonly vertices = new Map<number, string>()
  readonly arcs = new Set<number>()
  /** arcs of each vertex: the removal of a vertex does not search all arcs */
  readonly #arcsOf = new Counter<number>()
  readonly #budget: ByteBudget
  #bytes = 0

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  /** @param isWhole - with its attributes */
  arcJson(arc: number, isWhole: boolean): string {
    const { from, to, type, isAbsent } = readArcNumber(arc)
    const ends = `"s":${this.vertices.get(from)},"d":${this.vertices.get(to)},"t":"${type}"`
    return isWhole && isAbsent ? `{${ends},"a":{"e":true}}` : `{${ends}}`
  }

  /** Drops all vertices and arcs. */
  clear(): void {
    this.#count(-this.#bytes)
    this.vertices.clear()
    this.arcs.clear()
    this.#arcsOf.clear()
  }

  /**
   * Applies an agent's update step by step, and refuses to remove an object that the client does not have.
   *
   * @returns actions, as JSON; each must be read
   * @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE
   */
  *apply({ darc, dvx, svx, sarc }: GraphUpdate): Generator<string, void> {
    for (const arc of darc) {
      const known = knownOf(this.arcs, arc)
      if (known === undefined) throw invalid('an arc that there is not')
      yield `{"darc":${this.arcJson(known, false)}}`
      this.arcs.delete(known)
      this.#countArc(arc, -1)
      this.#count(-arcBytes)
    }
    for (const id of dvx) {
      const vertex = this.vertices.get(id)
      if (vertex === undefined) throw invalid('a vertex that there is not')
      if (this.#arcsOf.of(id) > 0) throw invalid('a vertex before its arcs')
      this.vertices.delete(id)
      this.#count(-vertexBytes - vertex.length)
      yield `{"dvx":{"vx":${vertex}}}`
    }
    for (const vertex of svx) {
      if (this.vertices.has(vertex[0]) || this.vertices.size >= maxVertices) throw invalid('a vertex too many')
      const json = vertexJson(vertex)
      this.#count(vertexBytes + json.length)
      this.vertices.set(vertex[0], json)
      yield `{"svx":{"vx":${json}}}`
    }
    for (const arc of sarc) {
      const [from, to] = arc
      if (!this.vertices.has(from) || !this.vertices.has(to)) throw invalid('an arc without its vertices')
      if (knownOf(this.arcs, arc) !== undefined || this.arcs.size >= maxArcs) throw invalid('an arc too many')
      this.#count(arcBytes)
      this.arcs.add(arcNumber(arc))
      this.#countArc(arc, 1)
      yield `{"sarc":${this.arcJson(arcNumber(arc), true)}}`
    }
  }

  /** @returns actions, as JSON, that turn `before` into this graph */
  *since(before: Graph): Generator<string, void> {
    const ids = this.#idsIn(before)
    const stays = new Set(ids.values())
    const arcsThatStay = new Set<number>()
    const newArcs: number[] = []
    for (const arc of this.arcs) {
      const { from, to, type, isAbsent } = readArcNumber(arc)
      const [source, destination] = [ids.get(from), ids.get(to)]
      const isKnown = source !== undefined && destination !== undefined
      const known = isKnown ? arcNumber([source, destination, type, isAbsent ? 1 : 0]) : undefined
      if (known !== undefined && before.arcs.has(known)) arcsThatStay.add(known)
      else newArcs.push(arc)
    }
    for (const arc of before.arcs) if (!arcsThatStay.has(arc)) yield `{"darc":${before.arcJson(arc, false)}}`
    const left = [...before.vertices].filter(([id]) => !stays.has(id)).map(([, json]) => json)
    for (const json of left) if (!isNamespace(json)) yield `{"dvx":{"vx":${json}}}`
    for (const json of left) if (isNamespace(json)) yield `{"dvx":{"vx":${json}}}`
    for (const [id, json] of this.vertices) if (!ids.has(id)) yield `{"svx":{"vx":${json}}}`
    for (const arc of newArcs) yield `{"sarc":${this.arcJson(arc, true)}}`
  }

  /**
   * Maps ids of this graph to ids of `before`, for vertices in both. If a Namespace leaves, a client drops its objects:
   * then none counts as kept.
   */
  #idsIn(before: Graph): ReadonlyMap<number, number> {
    const known = new Map(Array.from(before.vertices, ([id, json]) => [json, id]))
    const here = new Set(this.vertices.values())
    if ([...known.keys()].some((json) => isNamespace(json) && !here.has(json))) return new Map()
    return new Map(
      [...this.vertices].flatMap(([id, json]) => {
        const there = known.get(json)
        return there === undefined ? [] : [[id, there] as const]
      }),
    )
  }

  #countArc([from, to]: GraphArc, by: 1 | -1): void {
    this.#arcsOf.add(from, by)
    this.#arcsOf.add(to, by)
  }

  #count(bytes: number): void {
    if (bytes > 0) this.#budget.take(bytes)
    else this.#budget.give(-bytes)
    this.#bytes += bytes
  }
}

/**
 * The graph that a client has, over all of its views. If the agent begins again, the client gets only the differences.
 */
export class ClientGraph {
  readonly #budget: ByteBudget
  #graph: Graph
  /** graph of a view that has begun again, until all of it has come */
  #next: Graph | undefined
  #hasSent = false
  /** current warnings */
  #warnings: readonly Warning[] = []
  #sentWarnings = new Set<string>()

  constructor(budget: ByteBudget) {
    this.#budget = budget
    this.#graph = new Graph(budget)
  }

  /**
   * @returns messages, in order; all of them must be read
   * @throws KasError INVALID_MESSAGE, MESSAGE_TOO_LARGE
   */
  *apply(update: GraphUpdate): Generator<string, void> {
    if (update.seq === 1 && this.#hasSent) {
      this.#next?.clear()
      this.#next = new Graph(this.#budget)
    }
    for (const message of graphMessages(this.#actions(update), this.#newWarnings(update))) {
      this.#hasSent = true
      yield message
    }
    if (this.#hasSent) return
    this.#hasSent = true
    yield emptyMessage
  }

  /** Drops both graphs. */
  end(): void {
    this.#graph.clear()
    this.#next?.clear()
  }

  *#actions(update: GraphUpdate): Generator<string, void> {
    const next = this.#next
    if (!next) {
      yield* this.#graph.apply(update)
      return
    }
    for (const _action of next.apply(update)) void _action // the next graph is sent as a whole
    if (update.hasMore) return
    yield* next.since(this.#graph)
    this.#graph.clear()
    this.#graph = next
    this.#next = undefined
  }

  /** Returns warnings that are new. Each is sent once, until it no longer applies. */
  #newWarnings({ warnings = this.#warnings, isCut }: GraphUpdate): readonly Warning[] {
    this.#warnings = warnings
    const all = isCut ? [...warnings, cutWarning] : warnings
    const fresh = all.filter(({ type, text }) => !this.#sentWarnings.has(`${type} ${text}`))
    this.#sentWarnings = new Set(all.map(({ type, text }) => `${type} ${text}`))
    return fresh
  }
}

function knownOf(arcs: ReadonlySet<number>, arc: GraphArc): number | undefined {
  return bothArcNumbers(arcNumber(arc)).find((one) => arcs.has(one))
}

const isNamespace = (vertex: string) => vertex.startsWith('{"v":"v1","r":"namespaces"')

function invalid(what: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `an update of a graph has ${what}` })
}
