import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { clockDelay } from '../../../lib/pause.ts'
import { detached } from '../../../lib/tracing/tracer.ts'

export interface TokenWatchesComponents {
  readonly clock: Clock
  readonly random: () => number
  /** Asks about the token, unless an answer is at hand. */
  ask(token: string, signal: AbortSignal): Promise<unknown>
  /** how long an answer is at hand yet, in ms */
  keptMs(token: string): number
}

export interface TokenWatchesOptions {
  /** from one failed question to the next, more or less by a fifth, in ms */
  readonly retryMs?: number
}

const defaultRetryMs = 30_000
/** between two questions where answers are not kept */
const unkeptMs = 60_000

const refusals: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'AGENT_NOT_FOUND'])

/** Asks again about the tokens of connected agents as soon as an answer is old, one question a token. */
export class TokenWatches {
  readonly #components: TokenWatchesComponents
  readonly #retryMs: number
  readonly #watches = new Map<string, { readonly controller: AbortController; watchers: number }>()

  constructor(components: TokenWatchesComponents, options: TokenWatchesOptions = {}) {
    this.#components = components
    this.#retryMs = options.retryMs ?? defaultRetryMs
  }

  /** @returns ends the watch, once */
  watch(token: string): () => void {
    const known = this.#watches.get(token)
    const watch = known ?? { controller: new AbortController(), watchers: 0 }
    watch.watchers += 1
    if (!known) {
      this.#watches.set(token, watch)
      void detached(() => this.#run(token, watch.controller.signal))
    }
    let released = false
    return () => {
      if (released) return
      released = true
      watch.watchers -= 1
      if (watch.watchers > 0 || this.#watches.get(token) !== watch) return
      this.#watches.delete(token)
      watch.controller.abort(new KasError({ code: 'CANCELLED' }))
    }
  }

  stop(): void {
    for (const { controller } of this.#watches.values()) controller.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#watches.clear()
  }

  /** Until nobody watches, or the token is refused: who holds its tunnels learns of that otherwise. */
  async #run(token: string, signal: AbortSignal): Promise<void> {
    const { clock, random, ask, keptMs } = this.#components
    let waitMs = keptMs(token)
    let wasOver = false
    while (!signal.aborted) {
      try {
        if (waitMs > 0) await clockDelay(clock, waitMs, signal)
        await ask(token, signal)
        const kept = keptMs(token)
        waitMs = kept === 0 && wasOver ? unkeptMs : kept // the first time it may have been at hand until now
        wasOver = kept === 0
      } catch (error) {
        if (refusals.has(KasError.from(error).code)) break
        waitMs = this.#retryMs * (0.8 + 0.4 * random())
      }
    }
    if (!signal.aborted) this.#watches.delete(token)
  }
}
