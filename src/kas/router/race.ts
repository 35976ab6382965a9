import type { Offer } from '../../call/offer.ts'

/** Asks for a tunnel; undefined: there is none this way. Must end soon after `signal` aborts. */
export type Ask = (signal: AbortSignal) => Promise<Offer | undefined>

/** Several ways are asked for a tunnel: the first offer wins, the others are given back. */
export class Race {
  readonly #winner = Promise.withResolvers<Offer | undefined>()
  readonly #running = new Map<object, AbortController>()
  #over = false

  /** The first offer; undefined after `close`; rejects after `fail`. */
  get winner(): Promise<Offer | undefined> {
    return this.#winner.promise
  }

  /** Ways that have not answered yet. */
  get size(): number {
    return this.#running.size
  }

  has(way: object): boolean {
    return this.#running.has(way)
  }

  /** Lets `way` run; `onNone` is called if it comes back with nothing while the race goes on. */
  enter(way: object, ask: Ask, onNone: () => void): void {
    if (this.#over) return
    const controller = new AbortController()
    this.#running.set(way, controller)
    const leave = () => {
      if (this.#running.get(way) === controller) this.#running.delete(way)
    }
    ask(controller.signal).then(
      (offer) => {
        leave()
        if (!offer) {
          if (!this.#over) onNone()
        } else if (this.#over || controller.signal.aborted) offer.giveBack()
        else this.#end(() => this.#winner.resolve(offer))
      },
      (error: unknown) => {
        leave()
        if (!this.#over && !controller.signal.aborted) this.fail(error)
      },
    )
  }

  /** Nothing is hoped for this way any more. */
  drop(way: object): void {
    this.#running.get(way)?.abort()
    this.#running.delete(way)
  }

  close(): void {
    this.#end(() => this.#winner.resolve(undefined))
  }

  fail(error: unknown): void {
    this.#end(() => this.#winner.reject(error))
  }

  #end(settle: () => void): void {
    if (this.#over) return
    this.#over = true
    settle()
    for (const controller of this.#running.values()) controller.abort()
    this.#running.clear()
  }
}
