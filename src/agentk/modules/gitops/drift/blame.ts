import { textAt } from '../../../../kubernetes/object.ts'
import { beforeFirstApply, type ManagedEntry } from '../live/managed-fields.ts'
import { isOwn, type OwnedFields } from '../live/owned-fields.ts'
import type { FieldDifference } from './differences.ts'

/** Manager that has set a field, as it named itself. The API server gives the time. */
export interface Blame {
  readonly manager: string
  readonly operation: string
  /** subresource through which it wrote: `status`, `scale`; empty: the object itself */
  readonly subresource: string
  /** time of the manager's last change of the object, in RFC 3339: seconds. Empty: none, as of `scale` */
  readonly time: string
}

/** Names that the API server writes for managers that it does not know, or has folded into one entry. */
const noManagers: ReadonlySet<string> = new Set(['', beforeFirstApply, 'ancient-changes'])

/** Kinds of differences after which the managers that have the field are not those that changed it. */
const untraced: ReadonlySet<FieldDifference['kind']> = new Set(['missing', 'gone'])

/**
 * Returns the manager that changed a field, or `unknown` where the owners do not prove it.
 *
 * FieldsV1 names the managers that have a field, not those that removed one. An update makes its manager the only owner
 * but for managers that apply the same value later. So the owner by update has changed the field. Several owners by
 * apply agree on the value, and their times do not say which of them was first. An apply that only agrees writes an
 * entry without a time.
 *
 * @param owned - owners of all fields of the live object
 * @param manager - the source's own: it is never blamed
 */
export function blame(owned: OwnedFields, difference: FieldDifference, manager: string): Blame | 'unknown' {
  const { kind, path } = difference
  if (untraced.has(kind)) return 'unknown'
  // an owner of items does not own their order
  const owners = kind === 'reordered' ? owned.ownersOfWhole(path) : owned.owners(path)
  const others = owners.filter((entry) => !isOwn(entry, manager))
  const updates = others.filter(({ operation }) => operation === 'Update')
  const applies = others.filter((entry) => entry.operation === 'Apply' && textAt(entry, 'time') !== '')
  const newest = updates.length > 0 ? newestOf(updates) : applies.length === 1 ? applies[0] : undefined
  return newest && !noManagers.has(textAt(newest, 'manager')) ? blameOf(newest) : 'unknown'
}

function newestOf(entries: readonly ManagedEntry[]): ManagedEntry | undefined {
  return entries.toSorted((one, other) => (textAt(one, 'time') < textAt(other, 'time') ? -1 : 1)).at(-1)
}

function blameOf(entry: ManagedEntry): Blame {
  const text = (name: string) => textAt(entry, name)
  return {
    manager: text('manager'),
    operation: text('operation'),
    subresource: text('subresource'),
    time: text('time'),
  }
}
