/** Random number, 0 up to 1, which a test can fix. */
export type Random = () => number

/** Returns `ms`, up to a fifth less or more, so that replicas that start together do not ask together for ever. */
export function jittered(ms: number, random: Random): number {
  return ms * (0.8 + 0.4 * random())
}

export interface RetryOptions {
  /** pause after the first failure. ms */
  readonly firstRetryMs: number
  /** bound of the pause, which doubles with each failure. ms */
  readonly maxRetryMs: number
}

/** Returns the pause after this many failures in a row, in ms. */
export function retryPauseMs(failures: number, options: RetryOptions, random: Random): number {
  return jittered(Math.min(options.firstRetryMs * 2 ** (failures - 1), options.maxRetryMs), random)
}
