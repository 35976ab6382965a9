import type { Clock } from './clock.ts'

/**
 * Resolves after `ms` by `clock`, or as soon as `signal` aborts, which the caller checks itself. Leaves nothing behind.
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

/** Resolves after `ms` of `clock`, or rejects with the signal's reason; leaves neither timer nor listener behind. */
export function clockDelay(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const onAbort = () => {
      cancel()
      reject(signal.reason)
    }
    const cancel = clock.after(ms, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
