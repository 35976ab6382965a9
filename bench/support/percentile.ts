/** @param share - 0.5: the middle; 1: the largest */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = Math.max(0, Math.ceil(sorted.length * share) - 1)
  const value = sorted[at]
  if (value === undefined) throw new Error('a percentile of nothing')
  return value
}
