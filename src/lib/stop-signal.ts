import { constants } from 'node:os'

const stopSignals = ['SIGTERM', 'SIGINT'] as const

/**
 * Resolves at the first SIGTERM or SIGINT. The second ends the process at once, with the exit code that shells use for
 * a signal.
 */
export function stopSignal(onFirst: (signal: string) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let first = true
  for (const signal of stopSignals) {
    process.on(signal, () => {
      if (!first) process.exit(128 + constants.signals[signal])
      first = false
      onFirst(signal)
      resolve()
    })
  }
  return promise
}
