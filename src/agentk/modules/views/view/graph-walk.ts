import { arcNumber, bothArcNumbers, canBeDrawn } from '../../../../proto/graph-arcs.ts'
import type { GraphArc, GraphArcType } from '../../../../proto/views-json.ts'
import type { Owner } from '../projection/projector.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import type { GraphIds, VertexText } from './graph-ids.ts'
import type { GraphKinds } from './graph-kinds.ts'
import type { GraphKind, GraphSelection } from './graph-selection.ts'
import { compareTexts } from './order.ts'

/** References that are read in one step. */
const namesPerStep = 50

/** Content of a graph at one moment. */
export interface Graph {
  /** ids of vertices, in order */
  readonly vertices: ReadonlySet<number>
  /** numbers of `arcNumber`, in order */
  readonly arcs: ReadonlySet<number>
  /** there is more, for which there is no room */
  readonly isCut: boolean
}

export interface GraphWalkComponents {
  readonly records: Pick<ReadonlyRecords, 'named' | 'claiming' | 'naming'>
  readonly sees: (record: ObjectRecord) => boolean
  readonly kinds: GraphKinds
  readonly selection: GraphSelection
  readonly bothWays: ReadonlySet<string>
  /** true if the namespace is selected */
  readonly isSelected: (namespace: string) => boolean
  readonly ids: GraphIds
}

export interface GraphRoom {
  readonly maxVertices: number
  readonly maxArcs: number
}

/** Object as another one names it. */
interface Named {
  readonly type: GraphArcType
  /** `group/Kind` */
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** uid of an owner: another object of this name is not it */
  readonly uid?: string
}

/**
 * Walks from objects along their references. The result depends on what the caller may list, and on the room, alone:
 * hidden objects are as absent ones.
 */
export class GraphWalk {
  readonly #components: GraphWalkComponents
  readonly #room: GraphRoom
  /** ids of objects, by uid */
  readonly #found = new Map<string, number>()
  readonly #records: ObjectRecord[] = []
  readonly #vertices = new Set<number>()
  readonly #arcs = new Set<number>()
  #isCut = false

  constructor(components: GraphWalkComponents, room: GraphRoom) {
    this.#components = components
    this.#room = room
  }

  /**
   * Yields after each step, and returns the graph.
   *
   * @param first - in order
   */
  *steps(first: Iterable<ObjectRecord>): Generator<undefined, Graph> {
    for (const record of first) {
      this.#add(record)
      yield
    }
    if (this.#components.selection.hasRoots) yield* this.#reach()
    for (const record of this.#records) {
      let count = 0
      for (const named of namesIn(record)) {
        this.#draw(record, named)
        if (++count % namesPerStep === 0) yield
      }
      yield
    }
    return { vertices: this.#vertices, arcs: this.#arcs, isCut: this.#isCut }
  }

  /**
   * Adds objects that are reached, the nearest first, in order: no hidden object influences which of them have room.
   */
  *#reach(): Generator<undefined, void> {
    for (let from = 0; from < this.#records.length && !this.#isCut; ) {
      const level = this.#records.slice(from)
      from = this.#records.length
      const next = new Map<string, ObjectRecord>()
      for (const record of level) {
        for (const one of this.#around(record)) {
          if (one && !this.#found.has(one.uid) && this.#isSelected(one)) next.set(one.uid, one)
          if (next.size >= 2 * this.#room.maxVertices) this.#keepFirst(next)
          yield
        }
      }
      for (const record of [...next.values()].sort(comparePlaces)) this.#add(record)
      yield
    }
  }

  /** Keeps the first ones: the others have no room. */
  #keepFirst(next: Map<string, ObjectRecord>): void {
    const ordered = [...next.values()].sort(comparePlaces)
    for (const { uid } of ordered.slice(this.#room.maxVertices)) next.delete(uid)
    this.#isCut = true
  }

  #isSelected(record: ObjectRecord): boolean {
    const { sees, selection, isSelected } = this.#components
    return sees(record) && selection.selects(record, isSelected)
  }

  #add(record: ObjectRecord): void {
    if (this.#vertices.size >= this.#room.maxVertices) {
      this.#isCut = true
      return
    }
    const { kind, namespace, name, uid } = record
    const text = vertexText(kind, namespace, name)
    if (text === undefined) return
    const id = this.#components.ids.of(text)
    this.#found.set(uid, id)
    this.#records.push(record)
    this.#vertices.add(id)
  }

  /** Yields the objects that one leads to; undefined: nothing is there. */
  *#around(record: ObjectRecord): Generator<ObjectRecord | undefined, void> {
    const { bothWays, records } = this.#components
    for (const named of namesIn(record)) {
      const one = this.#recordOf(named)
      yield one && isIt(one, named) ? one : undefined
    }
    if (bothWays.has('or')) {
      for (const one of records.claiming(record)) yield owns(record, one) ? one : undefined
    }
    if (bothWays.has('r')) yield* records.naming(record.kind.key, record.namespace, record.name)
  }

  #recordOf({ key, namespace, name }: Named): ObjectRecord | undefined {
    const { records, kinds } = this.#components
    return records.named(key, kinds.of(key, namespace).isNamespaced ? namespace : '', name)
  }

  #draw(record: ObjectRecord, named: Named): void {
    const { sees } = this.#components
    const from = this.#found.get(record.uid) as number
    const known = this.#recordOf(named)
    if (known && sees(known)) {
      const to = this.#found.get(known.uid) // undefined: not asked for, or without room
      if (to !== undefined) this.#arc([from, to, named.type, isIt(known, named) ? 0 : 1])
      return
    }
    const { key, name } = named
    const { kinds, selection, isSelected, ids } = this.#components
    const kind = kinds.of(key, named.namespace)
    const namespace = kind.isNamespaced ? named.namespace : ''
    if (!selection.mayShow({ kind, namespace, name }, isSelected)) return
    const text = vertexText(kind, namespace, name)
    if (text === undefined) return
    const isFull = this.#arcs.size >= this.#room.maxArcs || this.#vertices.size >= this.#room.maxVertices
    if (isFull) this.#isCut = true
    else {
      const to = ids.of(text)
      this.#vertices.add(to)
      this.#arc([from, to, named.type, kinds.isAbsent(key, namespace, name) ? 1 : 0])
    }
  }

  /** Adds an arc. If two arcs differ only in whether the destination exists, the one to an existing object counts. */
  #arc(drawn: GraphArc): void {
    const arc = arcNumber(drawn)
    const [present, absent] = bothArcNumbers(arc)
    if (this.#arcs.has(present)) return
    if (arc === present) this.#arcs.delete(absent)
    if (this.#arcs.size < this.#room.maxArcs) this.#arcs.add(arc)
    else if (!this.#arcs.has(arc)) this.#isCut = true
  }
}

function* namesIn({ namespace, owner, otherOwners, references, node }: ObjectRecord): Iterable<Named> {
  const asOwner = ({ uid, kind, name }: Owner): Named => ({ type: 'or', key: kind, namespace, name, uid })
  if (owner) yield asOwner(owner)
  for (const one of otherOwners) yield asOwner(one)
  for (const { kind, namespace: where, name } of references) yield { type: 'r', key: kind, namespace: where, name }
  if (node !== '') yield { type: 'r', key: 'Node', namespace: '', name: node }
}

const isIt = ({ uid }: ObjectRecord, named: Named) => named.uid === undefined || named.uid === uid

function owns({ uid, kind, namespace, name }: ObjectRecord, { owner, namespace: near }: ObjectRecord): boolean {
  if (owner?.uid !== uid || owner.kind !== kind.key || owner.name !== name) return false
  return namespace === '' || namespace === near
}

/** @returns undefined: no client can draw it */
function vertexText(
  { group, version = 'v1', plural }: GraphKind,
  namespace: string,
  name: string,
): VertexText | undefined {
  const texts = [group, version, plural, namespace, name]
  return canBeDrawn(texts) ? JSON.stringify(texts).slice(1, -1) : undefined
}

function comparePlaces(one: ObjectRecord, other: ObjectRecord): number {
  return (
    compareTexts(one.name, other.name) ||
    compareTexts(one.kind.key, other.kind.key) ||
    compareTexts(one.namespace, other.namespace)
  )
}
