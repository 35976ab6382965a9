/** Time, so that a test can move it. */
export interface Clock {
  /** milliseconds since a moment that each clock has of its own */
  now(): number
  /** Calls `action` once after `ms`, unless the returned function is called before. */
  after(ms: number, action: () => void): () => void
}

/** Since 1970. It may be set meanwhile. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, action) {
    const timer = setTimeout(action, ms)
    return () => clearTimeout(timer)
  },
}

/** Since this process began: for what is measured, and for deadlines. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() }

/** As `systemClock`, for what is not to keep the process from ending. */
export const backgroundClock: Clock = {
  ...systemClock,
  after(ms, action) {
    const timer = setTimeout(action, ms).unref()
    return () => clearTimeout(timer)
  },
}
