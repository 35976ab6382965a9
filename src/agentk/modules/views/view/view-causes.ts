import type { Clock } from '../../../../lib/clock.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { Causes, type ShownCause } from '../tree/causes.ts'
import type { Forest } from '../tree/forest.ts'
import { type Entry, Family } from '../tree/forest-node.ts'

/** Bound of objects that are read for causes of one update; those of further rows follow with the next. */
export const maxReadPerUpdate = 10_000
/** Reads that take as much time as one choice. */
const readsToChoose = 20
/** bound of a group's children that are its roots */
const maxRoots = 256

export interface ViewCausesComponents {
  readonly records: ReadonlyRecords
  readonly clock: Clock
}

interface Chosen {
  readonly cause: ShownCause | undefined
  /** namespaces that were read; undefined: all */
  readonly namespaces: readonly string[] | undefined
  /** versions of what it was chosen from */
  readonly from: string
}

/** Causes of the rows of one view. A cause is chosen again when an opinion has changed from which it was chosen. */
export class ViewCauses {
  readonly #components: ViewCausesComponents
  /** by row */
  readonly #chosen = new Map<string, Chosen>()
  /** for rows of a group: its objects that are not well; none: its children are to be read */
  readonly #sick = new Map<string, readonly ObjectRecord[]>()

  constructor(components: ViewCausesComponents) {
    this.#components = components
  }

  of(id: string): ShownCause | undefined {
    return this.#chosen.get(id)?.cause
  }

  /** Lets all causes be chosen again: the viewer's rights have changed. */
  reset(): void {
    this.#sick.clear()
    for (const [id, { cause }] of this.#chosen) this.#chosen.set(id, { cause, namespaces: undefined, from: '' })
  }

  /** Notes that a child of a node has come, has gone, or is judged differently. */
  childChanged(node: string): void {
    this.#sick.delete(node)
    const known = this.#chosen.get(node)
    // a group's cause may have been chosen after the child was judged, but before it had its place
    if (known && !known.namespaces) this.#chosen.set(node, { ...known, from: '' })
  }

  /** True if causes may differ after opinions have changed in these namespaces. */
  mayChange(namespaces: readonly string[]): boolean {
    for (const { namespaces: read } of this.#chosen.values()) {
      if (!read || namespaces.some((one) => read.includes(one))) return true
    }
    return false
  }

  /** @returns rows whose causes have changed; `isWhole`: all were chosen */
  update(forest: Forest, shown: ReadonlyMap<string, Entry>): { changed: readonly string[]; isWhole: boolean } {
    const { records, clock } = this.#components
    const changed: string[] = []
    for (const kept of [this.#chosen, this.#sick]) for (const id of kept.keys()) if (!shown.has(id)) kept.delete(id)
    const now = clock.now()
    const causes = new Causes(records, forest.visible, () => now)
    let chosen = 0
    // rows without a cause first, then the oldest choices
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

  /**
   * Returns the objects of a row that are not well.
   *
   * @returns none: all is well; undefined: the row has no cause
   */
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

  /** @returns true if the cause has changed */
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
      // any change may bring a group a cause
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
