/** Time before its end from which a token is reported: two weeks are enough to replace it. ms */
export const soonMs = 14 * 86_400_000

/**
 * @param expiresAt - ms since 1970; undefined: never
 * @param now - ms since 1970
 */
export function endsSoon(expiresAt: number | undefined, now: number): expiresAt is number {
  return expiresAt !== undefined && expiresAt > now && expiresAt - now <= soonMs
}

/** Writes a time as in the directory file: `2027-01-01T08:00:00Z`. */
export function instantText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z')
}
