import { KasError } from '../../lib/errors.ts'
import { FairQueue } from '../../lib/fair-queue.ts'
import { abortable } from '../../lib/signals.ts'

interface Waiting {
  readonly source: unknown
  begin(): void
  /** It has no place. */
  refuse(): void
}

/** At most `maxRunning` of the given works run at once; at most `maxWaiting` wait for it, whose sources take turns. */
export class ProcessLimit {
  readonly #maxRunning: number
  readonly #maxWaiting: number
  readonly #waiting: FairQueue<Waiting>
  #running = 0

  constructor(options: { maxRunning: number; maxWaiting: number }) {
    this.#maxRunning = options.maxRunning
    this.#maxWaiting = options.maxWaiting
    this.#waiting = new FairQueue(options.maxWaiting)
  }

  /**
   * @param how.source - on whose behalf; where places to wait are scarce, sources share them
   * @param how.signal - ends the wait, not the work
   * @throws KasError REPOSITORY_FAILED when too many wait; the signal's reason; what `work` throws
   */
  async run<T>(work: () => Promise<T>, how: { readonly source: unknown; readonly signal: AbortSignal }): Promise<T> {
    await this.#enter(how)
    try {
      return await work()
    } finally {
      this.#leave()
    }
  }

  async #enter({ source, signal }: { source: unknown; signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    if (this.#running < this.#maxRunning) {
      this.#running += 1
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let hasTurn = false
    const waiting: Waiting = {
      source,
      begin: () => {
        hasTurn = true
        resolve()
      },
      refuse: () => reject(this.#tooMany()),
    }
    this.#waiting.add(waiting)?.refuse()
    try {
      await abortable(promise, signal)
    } catch (error) {
      this.#waiting.delete(waiting)
      if (hasTurn) this.#leave()
      throw error
    }
  }

  /** The turn is handed on, or over. */
  #leave(): void {
    const next = this.#waiting.take()
    if (next) next.begin()
    else this.#running -= 1
  }

  #tooMany(): KasError {
    return new KasError({
      code: 'REPOSITORY_FAILED',
      detail: `more than ${this.#maxWaiting} wait for a git process`,
    })
  }
}
