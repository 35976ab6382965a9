/** Time, which a test can move. */
export interface Clock {
  /** milliseconds since a moment that differs between clocks */
  now(): number
  /** Calls `action` once after `ms`, unless the returned function is called before. */
  after(ms: number, action: () => void): () => void
}

/** Milliseconds since 1970. The system's time may be set meanwhile. */
export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, action) {
    const timer = setTimeout(action, ms)
    return () => clearTimeout(timer)
  },
}

/** Milliseconds since this process began: for measurements and deadlines. */
export const monotonicClock: Clock = { ...systemClock, now: () => performance.now() }

/** As `systemClock`, but its timers do not keep the process running. */
export const backgroundClock: Clock = {
  ...systemClock,
  after(ms, action) {
    const timer = setTimeout(action, ms).unref()
    return () => clearTimeout(timer)
  },
}
