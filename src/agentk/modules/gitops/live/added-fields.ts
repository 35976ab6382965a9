import { textAt } from '../../../../kubernetes/object.ts'
import {
  type FieldSet,
  type IgnoredOf,
  isEmpty,
  type ManagedEntry,
  ownEntry,
  unionOf,
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
  const tree = treeOf(paths)
  const taken = [own.fieldsV1]
  const others = entries.flatMap((entry) => {
    if (entry === own) return []
    if (!adders.has(entry)) return [entry]
    const added = without(fieldsIn(tree, entry.fieldsV1), ignoredOf(entry))
    taken.push(added)
    const fieldsV1 = without(entry.fieldsV1, added)
    return isEmpty(fieldsV1) ? [] : [{ ...entry, fieldsV1 }]
  })
  return [...others, { ...own, fieldsV1: unionOf(taken) }]
}

function isAdderEntry(entry: ManagedEntry, { manager, isAdder }: Pick<AddedOptions, 'manager' | 'isAdder'>): boolean {
  return !isOwn(entry, manager) && textAt(entry, 'subresource') === '' && isAdder(textAt(entry, 'manager'))
}

/** Paths by their elements. A path ends where the map is empty: none leads on from the end of another. */
interface PathTree extends Map<string, PathTree> {}

function treeOf(paths: readonly ManagedPath[]): PathTree {
  const root: PathTree = new Map()
  for (const path of paths) {
    let at = root
    for (const element of path) {
      const next = at.get(element) ?? new Map()
      at.set(element, next)
      at = next
    }
  }
  return root
}

/** Returns the part of a set that stands at the ends of paths, with the names that lead there. */
function fieldsIn(tree: PathTree, fields: FieldSet): FieldSet {
  const found = Object.entries(fields).flatMap(([element, inner]): [string, FieldSet][] => {
    const rest = tree.get(element)
    if (!rest) return []
    const part = rest.size === 0 ? inner : fieldsIn(rest, inner)
    return rest.size > 0 && isEmpty(part) ? [] : [[element, part]]
  })
  return Object.fromEntries(found)
}
