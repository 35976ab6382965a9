import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { abortable } from '../../../../lib/signals.ts'

/** Pauses before an incomplete round, or an incomplete list, is tried again. ms */
export const retryBackoff = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }

/** Result of a round: nothing to do, something to try again, or something that other sources decide. */
export type Next = 'idle' | 'backoff' | 'waitingForOthers'

/** `waitingForFiles`: it was never added; `queued`: it begins at once. */
export type QueueState = 'waitingForFiles' | 'queued' | 'reconciling' | Next

interface Item {
  state: QueueState
  wake: PromiseWithResolvers<void>
  /** claims of others have changed since its round began */
  haveOthersChanged: boolean
  /** something new has come: pauses begin again */
  isNew: boolean
}

/**
 * Rounds of sources, one key for each source. A source has one round at a time; requests during a round cause one more.
 * A round that fails is made again, later each time.
 */
export class ReconcileQueue<Key extends object> {
  readonly #components: { readonly clock: Clock; readonly random: () => number }
  readonly #items = new Map<Key, Item>()

  constructor(components: { readonly clock: Clock; readonly random: () => number }) {
    this.#components = components
  }

  /** undefined: the source is not run */
  stateOf(key: Key): QueueState | undefined {
    return this.#items.get(key)?.state
  }

  /**
   * Requests a round. Without effect on a source that is not run.
   *
   * @param isNew - for something new, such as a commit: the pauses after failed rounds begin again
   */
  add(key: Key, { isNew = false } = {}): void {
    const item = this.#items.get(key)
    if (!item) return
    item.isNew ||= isNew
    if (item.state !== 'reconciling') item.state = 'queued'
    item.wake.resolve()
  }

  /** Starts a round of each source that waits for others. @param by - source with changed claims: it has no round */
  othersChanged(by?: Key): void {
    for (const [key, item] of this.#items) {
      if (key === by) continue
      item.haveOthersChanged = true
      if (item.state === 'waitingForOthers') this.add(key)
    }
  }

  /**
   * Makes rounds of one source until the signal aborts.
   *
   * @throws the error of `round`, which ends the source, except for the signal's reason
   */
  async run(key: Key, round: (signal: AbortSignal) => Promise<Next>, signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, retryBackoff)
    const item: Item = {
      state: 'waitingForFiles',
      wake: Promise.withResolvers(),
      haveOthersChanged: false,
      isNew: false,
    }
    this.#items.set(key, item)
    try {
      for (;;) {
        await abortable(item.wake.promise, signal)
        item.wake = Promise.withResolvers()
        item.state = 'reconciling'
        item.haveOthersChanged = false
        if (item.isNew) backoff.reset()
        item.isNew = false
        item.state = await round(signal)
        if (item.state === 'waitingForOthers' && item.haveOthersChanged) item.wake.resolve()
        if (item.state === 'idle') backoff.reset()
        else void backoff.wait(signal).then(item.wake.resolve)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      this.#items.delete(key)
    }
  }
}
