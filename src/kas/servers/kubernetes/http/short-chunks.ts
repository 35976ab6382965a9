import type { Clock } from '../../../../lib/clock.ts'
import type { Rate } from '../../../../lib/rate-limit.ts'
import { SharedRate } from '../../../../lib/shared-rate.ts'
import type { Connection } from './connection.ts'

/** Rate of short chunks of all callers, some percent of the event loop's time. */
const shortRate: Rate = { perSecond: 20_000, burst: 1000 }
/** Short chunks of a piece that cost too little for a pause. */
const fewChunks = 64

/** Paces bodies of short chunks. Callers share the rate: one that sends few does not wait for one that sends many. */
export class ShortChunks {
  readonly #rate: SharedRate

  constructor(clock: Pick<Clock, 'now'>) {
    this.#rate = new SharedRate(clock, shortRate)
  }

  /**
   * Takes what was parsed of a connection. Returns the pause before more of it is parsed; 0: none. Beside a body in
   * chunks, other connections of the caller wait with theirs. ms
   */
  pauseMs(connection: Pick<Connection, 'owner' | 'bodyNow' | 'shortChunks'>): number {
    const { owner, bodyNow, shortChunks: count } = connection
    connection.shortChunks = 0
    if (owner === undefined) return 0
    if (count > 0) this.#rate.take(owner.callerKey, count)
    const debtMs = bodyNow === 'chunked' ? this.#rate.msUntilPaid(owner.callerKey) : 0
    return Math.max(Math.ceil(debtMs), count > fewChunks ? 1 : 0)
  }
}
