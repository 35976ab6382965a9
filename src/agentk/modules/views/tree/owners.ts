import type { Owner } from '../projection/projector.ts'
import { customParentsOf } from '../store/object-record.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'

/** Owners of an object, one above the other: what has more stands as a root. */
export const maxAbove = 64

/** What stands above an object, as one caller sees it. */
export type Above =
  | { readonly is: 'object'; readonly record: ObjectRecord }
  /** `id`: `o:<namespace>:<uid>`, of what the object says */
  | { readonly is: 'placeholder'; readonly id: string; readonly owner: Owner }
  | undefined

type Named = Pick<ReadonlyRecords, 'get' | 'named'>

/**
 * The tree of owners among what one caller sees. What objects say of their owners is free text: it is believed where
 * uid, kind and name agree with an object in the same namespace or in none, that the caller sees. An owner that is
 * absent, hidden or other than was said is all the same from here.
 */
export class Owners {
  readonly #records: Named
  readonly #sees: (record: ObjectRecord) => boolean

  constructor(records: Named, sees: (record: ObjectRecord) => boolean) {
    this.#records = records
    this.#sees = sees
  }

  /** As they were with `before`, of which the records have another, or none. */
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

  /** The owner, though a cycle may be cut there. */
  believed(record: ObjectRecord): ObjectRecord | undefined {
    const { owner, namespace } = record
    if (!owner) return this.#custom(record)
    const found = this.#records.get(owner.uid)
    return found && this.#sees(found) && agrees(found, owner, namespace) ? found : undefined
  }

  /** Owners above it, one above the other; `Infinity`: more than `maxAbove`, or they go round. */
  countAbove(record: ObjectRecord): number {
    let count = 0
    for (let at = this.believed(record); at; at = this.believed(at)) {
      if (++count > maxAbove) return Number.POSITIVE_INFINITY
    }
    return count
  }

  /** The first that is seen: of the others nothing is known. */
  #custom(record: ObjectRecord): ObjectRecord | undefined {
    for (const { kind, name } of customParentsOf(record)) {
      const found = this.#records.named(kind, record.namespace, name)
      if (found && this.#sees(found)) return found
    }
    return undefined
  }

  /**
   * A cycle is cut at its least uid; one that has more owners above it than there may be stands as a root, a member of
   * a longer cycle too. So the way up is short, whatever objects say.
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

/** Whether those that claim it, as their owner or as what deploys them, find the same. */
export function isSameToClaims(one: ObjectRecord, other: ObjectRecord): boolean {
  const isSamePlace = one.name === other.name && one.namespace === other.namespace && one.kind.key === other.kind.key
  return isSamePlace && deployedBy(one) === deployedBy(other)
}

/** What says which objects are of an application that claim to be. */
function deployedBy({ references }: ObjectRecord) {
  return references[0]?.relation.startsWith('deploys') ? references : undefined
}

/** Whether the owner that it says is another. */
export function saysOtherOwner(one: ObjectRecord, other: ObjectRecord): boolean {
  const [owner, before] = [ownerOf(one), ownerOf(other)]
  return owner.uid !== before.uid || owner.kind !== before.kind || owner.name !== before.name
}

function ownerOf({ owner, customParent }: ObjectRecord): Partial<Owner> {
  return owner ?? { uid: '', ...customParent }
}
