import type { Owner } from '../projection/projector.ts'
import { customParentsOf } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'

/** Bound of owners, one above the other: an object with more is a root. As many levels of children count for one. */
export const maxAbove = 64

/** Parent of an object, as one caller sees it. */
export type Above =
  | { readonly is: 'object'; readonly record: ObjectRecord }
  /** `id`: `o:<namespace>:<uid>`, as the object names its owner */
  | { readonly is: 'placeholder'; readonly id: string; readonly owner: Owner }
  | undefined

type Named = Pick<ReadonlyRecords, 'get' | 'named'>

/**
 * Tree of owners among what one caller sees. Owners in an object are free text. They are believed if uid, kind and name
 * agree with an object that the caller sees, in the same namespace or in none. Owners that are absent, hidden or
 * different are not distinguished.
 */
export class Owners {
  readonly #records: Named
  readonly #sees: (record: ObjectRecord) => boolean

  constructor(records: Named, sees: (record: ObjectRecord) => boolean) {
    this.#records = records
    this.#sees = sees
  }

  /** Returns the owners as they were with `before`, which the records have replaced or removed. */
  static asOf(before: ObjectRecord, records: Named, sees: (record: ObjectRecord) => boolean): Owners {
    const isIt = (kind: string, namespace: string, name: string) =>
      before.kind.key === kind && before.namespace === namespace && before.name === name
    const then: Named = {
      get: (uid) => (uid === before.uid ? before : records.get(uid)),
      named: (...key) => (isIt(...key) ? before : records.named(...key)),
    }
    return new Owners(then, sees)
  }

  above(record: ObjectRecord): Above {
    const believed = this.believed(record)
    if (believed) return this.#isCut(record) ? undefined : { is: 'object', record: believed }
    const { owner, namespace } = record
    return owner && { is: 'placeholder', id: `o:${namespace}:${owner.uid}`, owner }
  }

  /** Owner that is believed, even if a cycle is cut there. */
  believed(record: ObjectRecord): ObjectRecord | undefined {
    const { owner, namespace } = record
    if (!owner) return this.#custom(record)
    const found = this.#records.get(owner.uid)
    return found && this.#sees(found) && agrees(found, owner, namespace) ? found : undefined
  }

  /** Number of owners, one above the other; `Infinity`: more than `maxAbove`, or a cycle. */
  countAbove(record: ObjectRecord): number {
    let count = 0
    for (let at = this.believed(record); at; at = this.believed(at)) {
      if (++count > maxAbove) return Number.POSITIVE_INFINITY
    }
    return count
  }

  /** First parent by custom that is seen: the caller knows nothing of the others. */
  #custom(record: ObjectRecord): ObjectRecord | undefined {
    for (const { kind, name } of customParentsOf(record)) {
      const found = this.#records.named(kind, record.namespace, name)
      if (found && this.#sees(found)) return found
    }
    return undefined
  }

  /**
   * True if the object is a root in spite of its owner. A cycle is cut at its least uid. An object with more than
   * `maxAbove` owners is a root, and so is each member of a longer cycle. So the way up is short, whatever objects
   * name.
   */
  #isCut(record: ObjectRecord): boolean {
    const above: ObjectRecord[] = []
    for (let at = this.believed(record); at; at = this.believed(at)) {
      if (at.uid === record.uid) return above.every(({ uid }) => record.uid < uid)
      if (above.includes(at)) return false // below a cycle, which is cut
      if (above.length === maxAbove) return true
      above.push(at)
    }
    return false
  }
}

function agrees(found: ObjectRecord, owner: Owner, namespace: string): boolean {
  const isNear = found.namespace === '' || found.namespace === namespace
  return isNear && found.kind.key === owner.kind && found.name === owner.name
}

/** True if objects that name it as owner or deployer find the same. */
export function isSameToClaims(one: ObjectRecord, other: ObjectRecord): boolean {
  const isSamePlace = one.name === other.name && one.namespace === other.namespace && one.kind.key === other.kind.key
  return isSamePlace && deployedBy(one) === deployedBy(other)
}

/** References by which an application confirms claims; undefined: it has none. */
function deployedBy({ references }: ObjectRecord) {
  return references[0]?.relation.startsWith('deploys') ? references : undefined
}

/** True if the two records name different owners. */
export function saysOtherOwner(one: ObjectRecord, other: ObjectRecord): boolean {
  const [owner, before] = [ownerOf(one), ownerOf(other)]
  return owner.uid !== before.uid || owner.kind !== before.kind || owner.name !== before.name
}

function ownerOf({ owner, customParent }: ObjectRecord): Partial<Owner> {
  return owner ?? { uid: '', ...customParent }
}
