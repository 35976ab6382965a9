import type { ApiAnswer } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'

/** Limit, longer than an API server refuses requests after its start. ms */
const patienceMs = 120_000
const againMs = 1000

/** @param status - status that is fine too: the request was made before. @throws Error: another refusal */
export async function accepted(asked: Promise<ApiAnswer>, status: number): Promise<void> {
  const answer = await asked
  if (answer.status >= 300 && answer.status !== status) throw new Error(`HTTP ${answer.status}: ${answer.body}`)
}

/**
 * Repeats a request, since an API server refuses some after its start. @throws Error: the last refusal, after
 * `patienceMs`
 */
export async function insisted<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const end = performance.now() + patienceMs
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      signal.throwIfAborted()
      if (performance.now() > end) throw error
    }
    await delay(againMs, signal)
  }
}
