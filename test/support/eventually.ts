/** between two tries, where nothing tells of the change */
const retryMs = 20

export interface Eventually {
  /** default 20 s */
  readonly timeoutMs?: number
  /** tells when to try again, until what it gives back is called; absent: every 20 ms */
  onChange?(listener: () => void): () => void
}

/**
 * Repeats `check` until it neither throws nor says false, and gives its result.
 *
 * @param options - what `check` asks, if that tells of its changes
 * @throws the last failure of `check` once the time is over
 */
export async function eventually<T>(
  check: () => T | Promise<T>,
  options: Eventually = {},
): Promise<Exclude<Awaited<T>, false>> {
  const end = performance.now() + (options.timeoutMs ?? 20_000)
  let wake = () => {}
  const leave = options.onChange?.(() => wake())
  try {
    for (;;) {
      const { promise: changed, resolve } = Promise.withResolvers<void>()
      wake = resolve // before the check: what changes meanwhile is not missed
      try {
        const result = await check()
        if (result !== false) return result as Exclude<Awaited<T>, false>
        throw new Error(`it never held: ${check}`)
      } catch (error) {
        if (performance.now() >= end) throw error
      }
      const timer = setTimeout(resolve, leave ? end - performance.now() : retryMs)
      await changed
      clearTimeout(timer)
    }
  } finally {
    leave?.()
  }
}
