import { KasError } from '../../lib/errors.ts'

/** Of the four threads that node has for such work: names are resolved and files are read there too. */
export const maxUnpackingAtOnce = 2

/**
 * Who unpacks beside the event loop, over all connections that share it: a few at once, and of those that wait one
 * payer after another, whose own go first in, first out. A connection waits once at the most.
 */
export class UnpackTurns {
  #running = 0
  readonly #waiting = new Map<object, Map<object, PromiseWithResolvers<void>>>()

  /**
   * Resolves at its turn, which ends with `done`.
   *
   * @param connection - that waits, until `leave`
   * @throws KasError CANCELLED once it has left
   */
  async enter(connection: object, payer: object): Promise<void> {
    if (this.#running < maxUnpackingAtOnce) {
      this.#running++
      return
    }
    const turn = Promise.withResolvers<void>()
    const own = this.#waiting.get(payer) ?? new Map<object, PromiseWithResolvers<void>>()
    own.set(connection, turn)
    this.#waiting.set(payer, own)
    await turn.promise
  }

  /** It does not wait any more; nothing where it has its turn already. */
  leave(connection: object, payer: object): void {
    this.#take(connection, payer)?.reject(new KasError({ code: 'CANCELLED' }))
  }

  /** The turn goes to who waits, if anybody does. */
  done(): void {
    for (const [payer, own] of this.#waiting) {
      for (const connection of own.keys()) {
        const turn = this.#take(connection, payer)
        if (this.#waiting.delete(payer)) this.#waiting.set(payer, own) // behind the others
        turn?.resolve()
        return
      }
    }
    this.#running--
  }

  #take(connection: object, payer: object): PromiseWithResolvers<void> | undefined {
    const own = this.#waiting.get(payer)
    const turn = own?.get(connection)
    own?.delete(connection)
    if (own?.size === 0) this.#waiting.delete(payer)
    return turn
  }
}
