import type { Clock } from './clock.ts'

/**
 * Resolves after `ms` by `clock`, or as soon as `signal` aborts: the caller looks at it anyway. Leaves nothing behind.
 */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal.addEventListener('abort', done, { once: true })
  })
}
