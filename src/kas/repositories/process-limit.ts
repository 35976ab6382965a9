import { KasError } from '../../lib/errors.ts'
import { abortable } from '../../lib/signals.ts'

/** At most `maxRunning` of the given works run at once; at most `maxWaiting` wait for it, first in, first out. */
export class ProcessLimit {
  readonly #maxRunning: number
  readonly #maxWaiting: number
  #running = 0
  readonly #waiting: (() => void)[] = []

  constructor(options: { maxRunning: number; maxWaiting: number }) {
    this.#maxRunning = options.maxRunning
    this.#maxWaiting = options.maxWaiting
  }

  /**
   * @param signal - ends the wait, not the work
   * @throws KasError REPOSITORY_FAILED when too many wait; the signal's reason; what `work` throws
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#enter(signal)
    try {
      return await work()
    } finally {
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#running >= this.#maxRunning) {
      if (this.#waiting.length >= this.#maxWaiting) {
        throw new KasError({
          code: 'REPOSITORY_FAILED',
          detail: `more than ${this.#maxWaiting} wait for a git process`,
        })
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#waiting.push(resolve)
      try {
        await abortable(promise, signal)
      } catch (error) {
        const place = this.#waiting.indexOf(resolve)
        if (place >= 0) this.#waiting.splice(place, 1)
        else this.#waiting.shift()?.() // the turn had come: it is handed on
        throw error
      }
    }
    this.#running++
  }
}
