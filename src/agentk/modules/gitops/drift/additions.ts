import { isDeepStrictEqual } from 'node:util'
import { type KubernetesObject, textAt } from '../../../../kubernetes/object.ts'
import { entriesOf } from '../live/managed-fields.ts'
import { FieldReader } from '../live/managed-path.ts'
import type { OwnedFields } from '../live/owned-fields.ts'
import type { FieldDifference } from './differences.ts'

/** Limit of the dry runs that ask for one object which fields it has without a manager's apply: managers. */
const maxAppliers = 2

/** The API server writes times of managedFields in steps of a second. ms */
const stepMs = 1000

/**
 * Returns the time until the second of the newest apply by another manager is over; 0: it is, or there is none. A
 * comparison before that would be repeated, with the dry run of `additionsOf`. ms
 */
export function msUntilSettled(
  object: KubernetesObject,
  { manager, now }: { readonly manager: string; readonly now: number },
): number {
  const applies = entriesOf(object).filter((entry) => textAt(entry, 'operation') === 'Apply')
  const times = applies
    .filter((entry) => textAt(entry, 'manager') !== manager)
    .map((entry) => Date.parse(textAt(entry, 'time')) + stepMs - now)
  return Math.max(0, ...times.filter((ms) => ms <= 2 * stepMs))
}

export interface AdditionsComponents {
  /**
   * Returns the live object as an apply of Git's manifest by this manager would leave it: without the fields that it
   * alone owns, and Git does not set. Some have their default again. undefined: not known, or not of this live object.
   */
  readonly withoutApply: (manager: string) => Promise<KubernetesObject | undefined>
}

/**
 * Leaves out fields that have the same value without their only owner, such as defaults: `kubectl get -o yaml` shows
 * them, so that an apply of that output owns them.
 *
 * @param added - as `addedFields` returns them. @throws the connection's error, or the signal's reason
 */
export async function additionsOf(
  added: readonly FieldDifference[],
  owned: OwnedFields,
  { withoutApply }: AdditionsComponents,
): Promise<readonly FieldDifference[]> {
  const applierOf = ({ path }: FieldDifference) => {
    const [owner, ...others] = owned.owners(path)
    return owner?.operation === 'Apply' && others.length === 0 ? textAt(owner, 'manager') : ''
  }
  const appliers = new Set(added.map(applierOf).filter((manager) => manager !== ''))
  let left = added
  for (const manager of [...appliers].slice(0, maxAppliers)) {
    const object = await withoutApply(manager)
    if (!object) continue
    const reader = new FieldReader()
    const isSame = ({ path, after }: FieldDifference) => isDeepStrictEqual(reader.at(object, path), after)
    left = left.filter((one) => applierOf(one) !== manager || !isSame(one))
  }
  return left
}
