import { statefulSetsOf } from './projection/storage.ts'
import type { ObjectRecord, Owner, ReadonlyRecords } from './record.ts'

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
    if (believed) return this.#isCut(record, believed) ? undefined : { is: 'object', record: believed }
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

  /** Those of the cycle that `record` is in; none: it is in no cycle. */
  cycleOf(record: ObjectRecord): ObjectRecord[] {
    const cycle = [record]
    const seen = new Set([record.uid])
    for (let at = this.believed(record); at; at = this.believed(at)) {
      if (at.uid === record.uid) return cycle
      if (seen.has(at.uid)) return []
      seen.add(at.uid)
      cycle.push(at)
    }
    return []
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
   * A cycle is cut at its least uid. The first above with a lesser one ends the search: uids are random, so it is
   * short. What is below a cycle goes round in it (Brent's algorithm).
   */
  #isCut(record: ObjectRecord, above: ObjectRecord): boolean {
    let mark = record.uid
    let steps = 0
    let lap = 1
    for (let at: ObjectRecord | undefined = above; at; at = this.believed(at)) {
      if (at.uid === record.uid) return true
      if (at.uid < record.uid || at.uid === mark) return false
      if (++steps === lap) {
        mark = at.uid
        steps = 0
        lap *= 2
      }
    }
    return false
  }
}

const claim = 'PersistentVolumeClaim'
const statefulSet = 'apps/StatefulSet'

/** Parents of one without owners, in its namespace, by its kind's custom. A claim's name is of several StatefulSets. */
export function customParentsOf(record: ObjectRecord): readonly Omit<Owner, 'uid'>[] {
  const { owner, customParent, kind } = record
  if (customParent) return [customParent]
  if (owner || kind.key !== claim) return []
  return statefulSetsOf(record.name).map((name) => ({ kind: statefulSet, name }))
}

function agrees(found: ObjectRecord, said: Owner, namespace: string): boolean {
  const isNear = found.namespace === '' || found.namespace === namespace
  return isNear && found.kind.key === said.kind && found.name === said.name
}

/** Whether another place in trees, or in groups, may follow from it: for it, or for those below. */
export function standsOtherwise(before: ObjectRecord | undefined, after: ObjectRecord | undefined): boolean {
  if (!before || !after) return true
  const [one, other] = [placeOf(before), placeOf(after)]
  return one.some((part, i) => part !== other[i])
}

function placeOf({ owner, customParent, environment, application, claim, ...record }: ObjectRecord) {
  const { uid, kind, name } = owner ?? { uid: '', ...customParent }
  const groups = [environment, application, claim?.application, claim?.kind, deployedBy(record)]
  return [uid, kind, name, ...groups, record.name, record.namespace, record.kind.key]
}

/** What says which objects are of an application that claim to be. */
function deployedBy({ references }: Pick<ObjectRecord, 'references'>) {
  return references[0]?.relation.startsWith('deploys') ? references : undefined
}
