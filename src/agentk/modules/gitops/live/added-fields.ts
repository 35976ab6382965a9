import { textAt } from '../../../../kubernetes/object.ts'
import {
  type FieldSet,
  type IgnoredOf,
  isEmpty,
  type ManagedEntry,
  ownEntry,
  union,
  without,
} from './managed-fields.ts'
import type { ManagedPath } from './managed-path.ts'
import { isOwn, OwnedFields } from './owned-fields.ts'

export interface AddedOptions {
  /** field manager of the source */
  readonly manager: string
  /** true for a manager by which people change objects */
  readonly isAdder: (manager: string) => boolean
  /** fields that rules of the source leave to their managers */
  readonly ignoredOf: IgnoredOf
}

/**
 * Gives fields that only people's tools own to the source's manager, outside of metadata and status: its next apply
 * removes them. Fields that a subresource has set stay, such as the number of replicas.
 *
 * @returns undefined: there are none, or the source has not applied the object yet
 */
export function addedTaken(
  entries: readonly ManagedEntry[],
  { manager, isAdder, ignoredOf }: AddedOptions,
): readonly ManagedEntry[] | undefined {
  const own = ownEntry(entries, manager)
  const adders = new Set(entries.filter((entry) => isAdderEntry(entry, { manager, isAdder })))
  if (!own || adders.size === 0) return undefined
  const paths = new OwnedFields(entries).onlyOf(adders)
  if (paths.length === 0) return undefined
  let taken: FieldSet = own.fieldsV1
  const others = entries.flatMap((entry) => {
    if (entry === own) return []
    if (!adders.has(entry)) return [entry]
    const theirs = paths.map((path) => fieldsAt(entry.fieldsV1, path)).reduce(union, {})
    const added = without(theirs, ignoredOf(entry))
    taken = union(taken, added)
    const fieldsV1 = without(entry.fieldsV1, added)
    return isEmpty(fieldsV1) ? [] : [{ ...entry, fieldsV1 }]
  })
  return [...others, { ...own, fieldsV1: taken }]
}

function isAdderEntry(entry: ManagedEntry, { manager, isAdder }: Pick<AddedOptions, 'manager' | 'isAdder'>): boolean {
  return !isOwn(entry, manager) && textAt(entry, 'subresource') === '' && isAdder(textAt(entry, 'manager'))
}

/** Returns the part of a set that stands at a path, with the names that lead there. */
function fieldsAt(fields: FieldSet, [element = '', ...rest]: ManagedPath): FieldSet {
  const inner = Object.hasOwn(fields, element) ? fields[element] : undefined
  if (!inner) return {}
  const found = rest.length === 0 ? inner : fieldsAt(inner, rest)
  return rest.length > 0 && isEmpty(found) ? {} : { [element]: found }
}
