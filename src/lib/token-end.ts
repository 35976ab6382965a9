/** A token that ends within this time is announced: two weeks are enough to hand out another one. ms */
export const soonMs = 14 * 86_400_000

/** @param expiresAt - undefined: never. @param now - both in ms since 1970 */
export function endsSoon(expiresAt: number | undefined, now: number): expiresAt is number {
  return expiresAt !== undefined && expiresAt > now && expiresAt - now <= soonMs
}

/** As the directory file has it: `2027-01-01T08:00:00Z`. */
export function instantText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}
