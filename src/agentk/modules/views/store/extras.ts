import { Counter } from '../../../../lib/counter.ts'
import { recordWith } from './object-record.ts'
import type { ObjectRecord } from './record.ts'

export interface ExtrasOptions {
  /** characters beyond `ordinaryText`, of all records of one namespace */
  readonly maxPerNamespace: number
  /** the same for all records */
  readonly max: number
}

/** At this bound, extras take from a third to all of the thread's heap, depending on their kind. */
export const extrasDefaults: ExtrasOptions = { maxPerNamespace: 16 * 1024 * 1024, max: 64 * 1024 * 1024 }

/** Characters that a record has without being counted: ordinary objects have some hundreds. */
export const ordinaryText = 1024
/** Labels, references, and values of a selector that a record has without being counted, of each. */
const ordinaryCount = 16
/** Characters that each further one counts besides its text: as measured, where none is shared. */
const labelRoom = 150
const referenceRoom = 100
const valueRoom = 8
/** References that a cut record keeps. */
const fewReferences = 8

/**
 * Counts the size of records beyond what is ordinary. A part that records share counts for each: this is seldom much.
 * Past the bounds, a record is kept without its extras. So a namespace full of large objects takes no room from others,
 * and does not end the thread.
 */
export class Extras {
  readonly #options: ExtrasOptions
  readonly #byNamespace = new Counter<string>()

  constructor(options: ExtrasOptions = extrasDefaults) {
    this.#options = options
  }

  /**
   * @param before - the record that is replaced
   * @returns the record, or as much of it as there is room for
   */
  fit(record: ObjectRecord, before: ObjectRecord | undefined): ObjectRecord {
    const more = extraOf(record)
    if (more === 0) return record
    const { maxPerNamespace, max } = this.#options
    const freed = before ? extraOf(before) : 0
    const ofNamespace = this.#byNamespace.of(record.namespace)
    const isRoom = ofNamespace - freed + more <= maxPerNamespace && this.#byNamespace.total - freed + more <= max
    return isRoom || more <= freed ? record : cutRecord(record)
  }

  change(before: ObjectRecord | undefined, after: ObjectRecord | undefined): void {
    const [fewer, more] = [before ? extraOf(before) : 0, after ? extraOf(after) : 0]
    if (before && fewer > 0) this.#byNamespace.add(before.namespace, -fewer)
    if (after && more > 0) this.#byNamespace.add(after.namespace, more)
  }
}

function extraOf({ labels, owner, otherOwners, references, selector, traits }: ObjectRecord): number {
  let text = traits ? textOf(traits) : 0
  let values = 0
  for (const [name, value] of labels) text += name.length + value.length
  for (const one of otherOwners) text += ownerText(one)
  if (owner) text += ownerText(owner)
  for (const { name, kind, namespace } of references) text += name.length + kind.length + namespace.length
  for (const { values: some } of selector?.expressions ?? []) {
    values += some.length
    for (const value of some) text += value.length
  }
  text += labelRoom * beyond(labels.size) + referenceRoom * beyond(references.length) + valueRoom * beyond(values)
  return Math.max(0, text - ordinaryText)
}

const texts = new WeakMap<object, number>()

/** Characters of traits, which several records may share. */
function textOf(traits: object): number {
  let length = texts.get(traits)
  if (length === undefined) {
    length = JSON.stringify(traits).length
    texts.set(traits, length)
  }
  return length
}

const beyond = (count: number) => Math.max(0, count - ordinaryCount)

const ownerText = ({ uid, kind, name }: NonNullable<ObjectRecord['owner']>) => uid.length + kind.length + name.length

/** Cuts a record. Its selector is left out: a selector that is cut selects more. */
function cutRecord(record: ObjectRecord): ObjectRecord {
  const labels = new Map<string, string>()
  let left = ordinaryText
  for (const [name, value] of record.labels) {
    left -= name.length + value.length
    if (left < 0 || labels.size === ordinaryCount) break
    labels.set(name, value)
  }
  const references = record.references.slice(0, fewReferences)
  return recordWith(record, { labels, otherOwners: [], references, selector: undefined, traits: undefined })
}
