import { patience } from './slowness.ts'

/** pause between two tries, where no event reports a change: a twentieth of the time so far, within these limits. ms */
const retryMs = { least: 20, most: 100 }
const retryShare = 1 / 20

export interface Eventually {
  /** default 20 s; longer on a slow machine */
  readonly timeoutMs?: number
  /**
   * calls the listener at each change, and returns a function that removes it; absent: a try every 20 ms, then less
   * often
   */
  onChange?(listener: () => void): () => void
}

/**
 * Repeats `check` until it neither throws nor returns false, and returns its result.
 *
 * @param options - with the source of changes that `check` depends on, if there is one
 * @throws the last failure of `check` once the time is over
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  options: Eventually = {},
): Promise<Exclude<Awaited<T>, false>> {
  const began = performance.now()
  const end = began + patience(options.timeoutMs ?? 20_000)
  let wake = () => {}
  const leave = options.onChange?.(() => wake())
  try {
    for (;;) {
      const { promise: changed, resolve } = Promise.withResolvers<void>()
      wake = resolve // set before the check, so that no change is missed
      try {
        const result = await check()
        if (result !== false) return result as Exclude<Awaited<T>, false>
        throw new Error(`it never held: ${check}`)
      } catch (error) {
        if (performance.now() >= end) throw error
      }
      const now = performance.now()
      const pauseMs = Math.min(retryMs.most, Math.max(retryMs.least, (now - began) * retryShare))
      const timer = setTimeout(resolve, leave ? end - now : pauseMs)
      await changed
      clearTimeout(timer)
    }
  } finally {
    leave?.()
  }
}
