import { delay } from '../../src/lib/signals.ts'

/** between two tries, where nothing tells of the change */
const retryMs = 20

/**
 * Repeats `check` until it does not throw, and gives its result. For what has no event to wait for.
 *
 * @throws the last failure of `check` once `timeoutMs` (default 10 s) are over
 */
export async function eventually<T>(check: () => T | Promise<T>, options: { timeoutMs?: number } = {}): Promise<T> {
  const end = performance.now() + (options.timeoutMs ?? 10_000)
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() >= end) throw error
      await delay(retryMs)
    }
  }
}
