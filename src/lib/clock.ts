/** Time, so that a test can move it. */
export interface Clock {
  /** milliseconds since 1970 */
  now(): number
  /** Calls `action` once after `ms`, unless the returned function is called before. */
  after(ms: number, action: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, action) {
    const timer = setTimeout(action, ms)
    return () => clearTimeout(timer)
  },
}
