/** Chance, 0 up to 1, so that a test can fix it. */
export type Random = () => number

/** `ms`, up to a fifth less or more: replicas that start together do not ask together for ever. */
export function jittered(ms: number, random: Random): number {
  return ms * (0.8 + 0.4 * random())
}

export interface RetryOptions {
  /** pause after the first failure */
  readonly firstRetryMs: number
  /** it doubles up to this */
  readonly maxRetryMs: number
}

/** The pause after so many failures in a row, in ms. */
export function retryPauseMs(failures: number, options: RetryOptions, random: Random): number {
  return jittered(Math.min(options.firstRetryMs * 2 ** (failures - 1), options.maxRetryMs), random)
}
