import type { NoOffer, Offer } from '../../call/offer.ts'
import { Cancellation } from '../../lib/signals.ts'

/** Asks one candidate for a tunnel. Must settle soon after it is cancelled. */
export type RequestOffer = (cancellation: Cancellation) => Promise<Offer | NoOffer>

/** Asks several candidates for a tunnel: the first offer wins, all other offers are given back. */
export class Race {
  readonly #winner = Promise.withResolvers<Offer | undefined>()
  readonly #running = new Map<object, Cancellation>()
  #ended = false

  /** The first offer; undefined after `close`; rejects after `fail`. */
  get winner(): Promise<Offer | undefined> {
    return this.#winner.promise
  }

  /** Candidates that have not answered yet. */
  get size(): number {
    return this.#running.size
  }

  has(candidate: object): boolean {
    return this.#running.has(candidate)
  }

  /** Asks `candidate` too. Calls `onNone` if the candidate has no tunnel and the race still runs. */
  enter(candidate: object, request: RequestOffer, onNone: () => void): void {
    if (this.#ended) return
    const cancellation = new Cancellation()
    this.#running.set(candidate, cancellation)
    const leave = () => {
      if (this.#running.get(candidate) === cancellation) this.#running.delete(candidate)
    }
    request(cancellation).then(
      (offer) => {
        leave()
        if (typeof offer === 'string') {
          if (!this.#ended) onNone()
        } else if (this.#ended || cancellation.isCancelled) offer.giveBack()
        else this.#end(() => this.#winner.resolve(offer))
      },
      (error: unknown) => {
        leave()
        if (!this.#ended && !cancellation.isCancelled) this.fail(error)
      },
    )
  }

  /** Cancels the request to the candidate; its answer no longer counts. */
  drop(candidate: object): void {
    this.#running.get(candidate)?.cancel()
    this.#running.delete(candidate)
  }

  close(): void {
    this.#end(() => this.#winner.resolve(undefined))
  }

  fail(error: unknown): void {
    this.#end(() => this.#winner.reject(error))
  }

  #end(settle: () => void): void {
    if (this.#ended) return
    this.#ended = true
    settle()
    for (const cancellation of this.#running.values()) cancellation.cancel()
    this.#running.clear()
  }
}
