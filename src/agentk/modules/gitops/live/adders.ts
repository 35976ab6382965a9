import { matchesWildcard } from '../../../../lib/wildcard.ts'
import type { DriftPolicy } from '../source-options.ts'

/** Returns a function that is true for managers that `added_by` matches: people change objects with them. */
export function isAdderOf({ addedBy }: Pick<DriftPolicy, 'addedBy'>): (manager: string) => boolean {
  return (manager) => addedBy.some((pattern) => matchesWildcard(pattern, manager))
}
