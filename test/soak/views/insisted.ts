import type { ApiAnswer } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'

/** Longer than a server is young. ms */
const patienceMs = 120_000
const againMs = 1000

/** @param status - is as good as done: it has been asked before. @throws Error: another refusal */
export async function accepted(asked: Promise<ApiAnswer>, status: number): Promise<void> {
  const answer = await asked
  if (answer.status >= 300 && answer.status !== status) throw new Error(`HTTP ${answer.status}: ${answer.body}`)
}

/** Again and again: a server that is young refuses some. @throws Error: the last refusal, after `patienceMs` of them */
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
