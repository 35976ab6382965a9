/** Largest uint32: 49 days. */
const maxAgeMs = 0xffff_ffff

/** Returns the age of `at` for a message, in whole ms. A time in the future has age 0. */
export function ageMs(at: number, now: number): number {
  return Math.min(maxAgeMs, Math.max(0, Math.round(now - at)))
}
