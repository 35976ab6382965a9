import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { detached } from '../../../lib/tracing/tracer.ts'

export interface TokenWatchesComponents {
  readonly clock: Clock
  readonly random: () => number
  /** Asks for the token's agent, unless a kept answer is there. */
  ask(token: string, signal: AbortSignal): Promise<unknown>
  /** remaining life of the kept answer, in ms; 0: there is none */
  keptMs(token: string): number
}

const defaultRetryMs = 30_000
/** between two questions where answers are not kept */
const unkeptMs = 60_000

const refusals: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'AGENT_NOT_FOUND'])

interface Watch {
  watchers: number
  /** no kept answer was left after the last question */
  wasOver: boolean
  /** cancels the timer or the question of the watch */
  cancel: () => void
}

/** Asks again about the tokens of connected agents as soon as an answer is old: one question per token. */
export class TokenWatches {
  readonly #components: TokenWatchesComponents
  readonly #retryMs: number
  readonly #watches = new Map<string, Watch>()

  constructor(
    components: TokenWatchesComponents,
    options: {
      /** from one failed question to the next, more or less by a fifth, in ms */
      readonly retryMs?: number
    } = {},
  ) {
    this.#components = components
    this.#retryMs = options.retryMs ?? defaultRetryMs
  }

  /** @returns the function that ends the watch */
  watch(token: string): () => void {
    const watch = this.#watches.get(token) ?? this.#begin(token)
    watch.watchers += 1
    let released = false
    return () => {
      if (released) return
      released = true
      watch.watchers -= 1
      if (watch.watchers > 0 || this.#watches.get(token) !== watch) return
      this.#watches.delete(token)
      watch.cancel()
    }
  }

  stop(): void {
    const watches = [...this.#watches.values()]
    this.#watches.clear()
    for (const { cancel } of watches) cancel()
  }

  #begin(token: string): Watch {
    const watch: Watch = { watchers: 0, wasOver: false, cancel: () => undefined }
    this.#watches.set(token, watch)
    detached(() => this.#askIn(this.#components.keptMs(token), token, watch))
    return watch
  }

  /** Asks after `ms`. Only a timer waits between two questions: there are thousands of agents. */
  #askIn(ms: number, token: string, watch: Watch): void {
    if (this.#watches.get(token) !== watch) return
    if (ms > 0) watch.cancel = this.#components.clock.after(ms, () => void this.#ask(token, watch))
    else void this.#ask(token, watch)
  }

  /**
   * Repeats until nobody watches, or the token is refused. The directory's listeners learn of a refusal by `onChange`.
   */
  async #ask(token: string, watch: Watch): Promise<void> {
    const { random, ask, keptMs } = this.#components
    const controller = new AbortController()
    watch.cancel = () => controller.abort(new KasError({ code: 'CANCELLED' }))
    let waitMs: number
    try {
      await ask(token, controller.signal)
      const kept = keptMs(token)
      waitMs = kept === 0 && watch.wasOver ? unkeptMs : kept // the kept answer may have expired just now
      watch.wasOver = kept === 0
    } catch (error) {
      if (refusals.has(KasError.from(error).code)) {
        if (this.#watches.get(token) === watch) this.#watches.delete(token)
        return
      }
      waitMs = this.#retryMs * (0.8 + 0.4 * random())
    }
    this.#askIn(waitMs, token, watch)
  }
}
