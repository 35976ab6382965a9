import { closest, distance } from 'fastest-levenshtein'

/**
 * The one of `names` that `name` was probably meant to be: the same but for case, `-` and `_`, or within a third of
 * its length (at least two letters).
 */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  if (names.length === 0) return undefined
  const plain = (one: string) => one.replaceAll(/[-_]/g, '').toLowerCase()
  const wanted = plain(name)
  const near = names.find((one) => plain(one) === wanted) ?? closest(name, names as string[])
  return plain(near) === wanted || distance(name, near) <= Math.max(2, name.length / 3) ? near : undefined
}
