/** The largest of a uint32: 49 days. */
const maxAgeMs = 0xffff_ffff

/** As a message has it: how long ago `at` was, in whole ms. A time that is still to come is now. */
export function ageMs(at: number, now: number): number {
  return Math.min(maxAgeMs, Math.max(0, Math.round(now - at)))
}
