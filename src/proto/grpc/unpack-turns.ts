import { KasError } from '../../lib/errors.ts'
import { FairQueue } from '../../lib/turns.ts'

/** Of the four threads that node has for such work: names are resolved and files are read there too. */
export const maxUnpackingAtOnce = 2

/** Connections: each waits once at the most, and a replica has fewer. */
const maxWaiting = 100_000

interface Waiting {
  /** who pays */
  readonly source: object
  readonly connection: object
  readonly turn: PromiseWithResolvers<void>
}

/**
 * Who unpacks beside the event loop, over all connections that share it: a few at once, and of those that wait one
 * payer after another, whose own go first in, first out. A connection waits once at the most.
 */
export class UnpackTurns {
  #running = 0
  readonly #queue = new FairQueue<Waiting>(maxWaiting)
  /** by their connection */
  readonly #waiting = new Map<object, Waiting>()

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
    const waiting = { source: payer, connection, turn: Promise.withResolvers<void>() }
    this.#waiting.set(connection, waiting)
    const loser = this.#queue.add(waiting)
    if (loser) this.#cancel(loser)
    await waiting.turn.promise
  }

  /** It does not wait any more; nothing where it has its turn already. */
  leave(connection: object): void {
    const waiting = this.#waiting.get(connection)
    if (waiting && this.#queue.delete(waiting)) this.#cancel(waiting)
  }

  /** The turn goes to who waits, if anybody does. */
  done(): void {
    const next = this.#queue.take()
    if (!next) {
      this.#running--
      return
    }
    this.#waiting.delete(next.connection)
    next.turn.resolve()
  }

  #cancel({ connection, turn }: Waiting): void {
    this.#waiting.delete(connection)
    turn.reject(new KasError({ code: 'CANCELLED' }))
  }
}
