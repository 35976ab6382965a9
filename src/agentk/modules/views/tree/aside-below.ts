import { countedKinds } from '../../../../kubernetes/counted-kinds.ts'
import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { uidOf } from '../../../../kubernetes/object.ts'
import { isSummary } from '../../../health/kas/opinion.ts'
import { countedOf, isKubernetesOwn } from '../../../health/kas/root-causes/counting.ts'
import { traitObject } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import type { VisibleRecords } from './visible-records.ts'

/** Bound of objects that are read for one question: past it, all kinds that are set aside may be below. */
const maxRead = 1000

type Read = Pick<ReadonlyRecords, 'claiming' | 'isClaimed' | 'places'>

/**
 * Finds the kinds that are set aside, are below an object and count for its verdict. Objects of a kind that was never
 * listed may be below any object of the same domain that has no verdict of its own.
 */
export class AsideBelow {
  readonly #records: Read
  readonly #visible: VisibleRecords
  readonly #aside: readonly string[]
  readonly #unlisted: readonly string[]
  #read = 0

  /** @param aside - `group/Kind` of kinds that the caller may list */
  constructor(records: Read, visible: VisibleRecords, aside: readonly string[]) {
    this.#records = records
    this.#visible = visible
    this.#aside = aside
    const present = new Set(Array.from(records.places(), ({ kind }) => kind.key))
    this.#unlisted = aside.filter((kind) => !present.has(kind))
  }

  /** Number of objects that were read. */
  get read(): number {
    return this.#read
  }

  /** @returns `group/Kind`, sorted */
  of(roots: readonly ObjectRecord[]): readonly string[] {
    const found = new Set<string>()
    const most = this.#read + maxRead
    const met = new Map(roots.map((root) => [root.uid, root]))
    for (const record of met.values()) {
      const { by } = this.#visible.opinions.ofOne(record)
      if (by === 'users') continue
      for (const kind of this.#madeFrom(record, by === 'nobody')) found.add(kind)
      for (const child of this.#deciding(record, by === 'nobody', most)) {
        if (this.#aside.includes(child.kind.key)) found.add(child.kind.key)
        else met.set(child.uid, child)
      }
      if (this.#read > most) return this.#aside
    }
    return [...found].sort()
  }

  /** Returns the kinds that are set aside and may have unknown objects below. */
  #madeFrom({ kind: { key } }: ObjectRecord, isUnsaid: boolean): readonly string[] {
    const mayBeBelow = (kind: string) => domainOf(kind) === domainOf(key) && this.#unlisted.includes(kind)
    return this.#aside.filter(
      (kind) => countedKinds[key]?.includes(kind) || (isUnsaid && !isKubernetesOwn(key) && mayBeBelow(kind)),
    )
  }

  /** Returns the children that decide an object's verdict. A summary needs none: its kind determines theirs. */
  #deciding(record: ObjectRecord, isUnsaid: boolean, most: number): readonly ObjectRecord[] {
    const { key } = record.kind
    const isDecided = isSummary(key) || !(isUnsaid || isKubernetesOwn(key))
    if (isDecided || !this.#records.isClaimed(record)) return []
    const children = new Map<string, ObjectRecord>()
    for (const child of this.#records.claiming(record)) {
      if (++this.#read > most) break
      const isChild = this.#visible.sees(child) && this.#visible.owners.believed(child)?.uid === record.uid
      if (isChild) children.set(child.uid, child)
    }
    const counted = countedOf(traitObject(record), [...children.values()].map(traitObject), Number.POSITIVE_INFINITY)
    return counted.flatMap(({ child }) => children.get(uidOf(child)) ?? [])
  }
}

/** `example.com` of `p1.example.com/Queue`. */
const domainOf = (kind: string) => parseKindKey(kind).group.split('.').slice(-2).join('.')
