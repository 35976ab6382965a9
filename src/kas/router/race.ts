import type { Offer } from '../../call/offer.ts'

/** Asks one candidate for a tunnel; undefined: it has none. Must end soon after `signal` aborts. */
export type RequestOffer = (signal: AbortSignal) => Promise<Offer | undefined>

/** Several candidates are asked for a tunnel: the first offer wins, the others are given back. */
export class Race {
  readonly #winner = Promise.withResolvers<Offer | undefined>()
  readonly #running = new Map<object, AbortController>()
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

  /** Asks `candidate` too; `onNone` is called if it has none while the race goes on. */
  enter(candidate: object, request: RequestOffer, onNone: () => void): void {
    if (this.#ended) return
    const controller = new AbortController()
    this.#running.set(candidate, controller)
    const leave = () => {
      if (this.#running.get(candidate) === controller) this.#running.delete(candidate)
    }
    request(controller.signal).then(
      (offer) => {
        leave()
        if (!offer) {
          if (!this.#ended) onNone()
        } else if (this.#ended || controller.signal.aborted) offer.giveBack()
        else this.#end(() => this.#winner.resolve(offer))
      },
      (error: unknown) => {
        leave()
        if (!this.#ended && !controller.signal.aborted) this.fail(error)
      },
    )
  }

  /** An answer of the candidate is not waited for any more. */
  drop(candidate: object): void {
    this.#running.get(candidate)?.abort()
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
    for (const controller of this.#running.values()) controller.abort()
    this.#running.clear()
  }
}
