import { countedKinds } from '../../../../kubernetes/counted-kinds.ts'
import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { uidOf } from '../../../../kubernetes/object.ts'
import { isSummary } from '../../../health/kas/opinion.ts'
import { countedOf, isKubernetesOwn } from '../../../health/kas/root-causes/counting.ts'
import { traitObject } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import type { VisibleRecords } from './visible-records.ts'

/** Objects that are read below one: past them all kinds that are set aside may be there. */
const maxRead = 1000

type Read = Pick<ReadonlyRecords, 'claiming' | 'isClaimed' | 'places'>

/**
 * Finds out which of the kinds that are set aside stand below an object and count for its verdict. Objects of a kind
 * that was never listed may stand below each object of the same domain of which nobody says how it is.
 */
export class AsideBelow {
  readonly #records: Read
  readonly #visible: VisibleRecords
  readonly #aside: readonly string[]
  readonly #unlisted: readonly string[]
  #read = 0

  /** @param aside - `group/Kind`, of kinds that the caller may list */
  constructor(records: Read, visible: VisibleRecords, aside: readonly string[]) {
    this.#records = records
    this.#visible = visible
    this.#aside = aside
    const present = new Set(Array.from(records.places(), ({ kind }) => kind.key))
    this.#unlisted = aside.filter((kind) => !present.has(kind))
  }

  /** Objects that were read. */
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

  /** Kinds of which it is not known what there is. */
  #madeFrom({ kind: { key } }: ObjectRecord, isUnsaid: boolean): readonly string[] {
    const mayBeBelow = (kind: string) => domainOf(kind) === domainOf(key) && this.#unlisted.includes(kind)
    return this.#aside.filter(
      (kind) => countedKinds[key]?.includes(kind) || (isUnsaid && !isKubernetesOwn(key) && mayBeBelow(kind)),
    )
  }

  /** Children that decide how it is. A summary's are known by its kind. */
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
