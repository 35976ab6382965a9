import { closest, distance } from 'fastest-levenshtein'

/** Returns a name without differences that people do not see: case, `-` and `_`. */
export const plainName = (name: string) => name.replaceAll(/[-_]/g, '').toLowerCase()

/**
 * Returns the one of `names` that `name` was probably meant to be. It is the same but for case, `-` and `_`, or differs
 * by a third of its length at most (or by two letters).
 */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined
  const wanted = plainName(name)
  const near = names.find((one) => plainName(one) === wanted) ?? closest(name, names as string[])
  return plainName(near) === wanted || distance(name, near) <= Math.max(2, name.length / 3) ? near : undefined
}

/** Returns a sentence for the end of a message, with the nearest name; empty: none is near. */
export function didYouMean(name: string, names: readonly string[]): string {
  const near = nearestName(name, names)
  return near === undefined ? '' : `. Did you mean ${near}?`
}
