import { hasChanges, isRefused, isUnknown, type Preview } from './preview.ts'

/**
 * Returns the exit code of a preview.
 *
 * @returns 4: the commit, or an object of it, would be refused; 5: not compared; 1: there are changes; 0: there are none
 */
export function exitCode({ end }: Pick<Preview, 'end'>): 0 | 1 | 4 | 5 {
  if (isRefused(end)) return 4
  if (isUnknown(end)) return 5
  return hasChanges(end) ? 1 : 0
}
