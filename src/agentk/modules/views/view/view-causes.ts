import type { Clock } from '../../../../lib/clock.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { Causes, type ShownCause } from '../tree/causes.ts'
import type { Forest } from '../tree/forest.ts'
import { type Entry, Family } from '../tree/forest-node.ts'

/** Objects that are read for causes of one update; those of further rows follow with the next. */
export const maxReadPerUpdate = 10_000
/** To choose takes as much time as to read so many. */
const readsToChoose = 20
/** children of a group that are its roots */
const maxRoots = 256

export interface ViewCausesComponents {
  readonly records: ReadonlyRecords
  readonly clock: Clock
}

interface Chosen {
  readonly cause: ShownCause | undefined
  /** undefined: all of them */
  readonly namespaces: readonly string[] | undefined
  /** of what it was chosen from */
  readonly from: string
}

/** Causes of the rows of one view. One is chosen anew where something is said otherwise of what it was chosen from. */
export class ViewCauses {
  readonly #components: ViewCausesComponents
  /** by row */
  readonly #chosen = new Map<string, Chosen>()
  /** of rows of a group, what of it is not well; none: its children are to be read */
  readonly #sick = new Map<string, readonly ObjectRecord[]>()

  constructor(components: ViewCausesComponents) {
    this.#components = components
  }

  of(id: string): ShownCause | undefined {
    return this.#chosen.get(id)?.cause
  }

  /** Its viewer may list something else now: all are chosen anew. */
  reset(): void {
    this.#sick.clear()
    for (const [id, { cause }] of this.#chosen) this.#chosen.set(id, { cause, namespaces: undefined, from: '' })
  }

  /** A child of a node has come, has gone, or is judged otherwise. */
  childChanged(node: string): void {
    this.#sick.delete(node)
    const known = this.#chosen.get(node)
    // a group's may have been chosen after the child was judged, but before it had its place
    if (known && !known.namespaces) this.#chosen.set(node, { ...known, from: '' })
  }

  /** Whether some may be others when something is said otherwise in these namespaces. */
  mayChange(namespaces: readonly string[]): boolean {
    for (const { namespaces: read } of this.#chosen.values()) {
      if (!read || namespaces.some((one) => read.includes(one))) return true
    }
    return false
  }

  /** @returns rows whose causes are others now, and whether all were chosen */
  update(forest: Forest, shown: ReadonlyMap<string, Entry>): { changed: readonly string[]; isWhole: boolean } {
    const { records, clock } = this.#components
    const changed: string[] = []
    for (const kept of [this.#chosen, this.#sick]) for (const id of kept.keys()) if (!shown.has(id)) kept.delete(id)
    const now = clock.now()
    const causes = new Causes(records, forest.visible, () => now)
    let chosen = 0
    // those that have none first, then those that were chosen the longest ago
    const waiting = [...shown.keys()].filter((id) => !this.#chosen.has(id))
    for (const id of [...waiting, ...this.#chosen.keys()]) {
      const entry = shown.get(id) as Entry
      const known = this.#chosen.get(id)
      const roots = this.#rootsOf(entry, forest)
      if (roots === undefined || (known && roots.length > 0 && known.from === fromOf(forest, known.namespaces)))
        continue
      if (causes.read + chosen * readsToChoose >= maxReadPerUpdate) return { changed, isWhole: false }
      if (roots.length > 0) chosen++
      if (this.#choose(id, { forest, causes, roots, isObject: entry.record !== undefined })) changed.push(id)
    }
    return { changed, isWhole: true }
  }

  /** What is not well of it. @returns none: all is well; undefined: it has no cause */
  #rootsOf(entry: Entry, forest: Forest): readonly ObjectRecord[] | undefined {
    if (entry.record) return isSick(entry.record, forest) ? [entry.record] : []
    if (entry instanceof Family) return undefined
    const known = this.#sick.get(entry.id)
    if (known) return known
    const roots: ObjectRecord[] = []
    for (const { record } of entry.children()) {
      if (record && isSick(record, forest)) roots.push(record)
      if (roots.length === maxRoots) break
    }
    this.#sick.set(entry.id, roots)
    return roots
  }

  /** @returns whether it is another */
  #choose(
    id: string,
    {
      forest,
      causes,
      roots,
      isObject,
    }: { forest: Forest; causes: Causes; roots: readonly ObjectRecord[]; isObject: boolean },
  ): boolean {
    const before = this.#chosen.get(id)?.cause
    if (roots.length === 0) {
      this.#chosen.delete(id)
      // of a group any change may bring one
      if (!isObject) this.#chosen.set(id, { cause: undefined, namespaces: undefined, from: '' })
      return before !== undefined
    }
    const { cause, namespaces: read } = causes.of(roots)
    const namespaces = isObject ? read : undefined
    this.#chosen.delete(id)
    this.#chosen.set(id, { cause, namespaces, from: fromOf(forest, namespaces) })
    return JSON.stringify(before) !== JSON.stringify(cause)
  }
}

function fromOf({ visible: { opinions }, placesVersion }: Forest, namespaces: readonly string[] | undefined): string {
  if (!namespaces) return `${opinions.version} ${placesVersion}`
  return namespaces.map((one) => opinions.versionOf(one)).join(' ')
}

function isSick(record: ObjectRecord, { visible }: Forest): boolean {
  const { word, below } = visible.opinions.of(record)
  return word !== 'Healthy' || below === 'Degraded'
}
