import type { Clock } from '../../lib/clock.ts'

/** An HTTP/2 session, as far as it is watched. */
export interface WatchedSession {
  /** grows while the other side lives */
  readonly bytesRead: number
  ping(): Promise<unknown>
  destroy(): void
}

export interface KeepAliveTimes {
  /** time between two PINGs, in ms, also while bytes arrive: kas may freeze right after some */
  readonly intervalMs: number
  /** silence after a PING before the connection counts as dead, in ms */
  readonly answerMs: number
}

/** Times of grpc-go agents. A stock kas answers PINGs less than 20 s apart with GOAWAY. */
export const stockTimes: KeepAliveTimes = { intervalMs: 55_000, answerMs: 20_000 }

/** If agentk's event loop was late by more than this, received bytes are still unread, and nothing is concluded. ms */
const maxLateMs = 1000

/** Ends a connection whose other side is lost without a sign, such as a frozen process or a dead node. */
export class KeepAlive {
  readonly #session: WatchedSession
  readonly #clock: Clock
  #times: KeepAliveTimes
  #seenBytes = -1
  #cancel: (() => void) | undefined
  #running = false

  constructor(session: WatchedSession, options: { times: KeepAliveTimes; clock: Clock }) {
    this.#session = session
    this.#clock = options.clock
    this.#times = options.times
  }

  /** Starts or restarts, with other times if given. */
  start(times: KeepAliveTimes = this.#times): void {
    this.#times = times
    this.#running = true
    this.#schedule()
  }

  stop(): void {
    this.#running = false
    this.#cancel?.()
    this.#cancel = undefined
  }

  #schedule(waitMs = this.#times.intervalMs): void {
    if (!this.#running) return
    this.#after(waitMs, () => this.#ping())
  }

  #ping(): void {
    const { intervalMs, answerMs } = this.#times
    this.#seenBytes = this.#session.bytesRead
    const watch = () => {
      this.#after(answerMs, (late) => {
        if (this.#hasAnswered()) this.#schedule(Math.max(0, intervalMs - answerMs))
        else if (late) watch()
        else this.#session.destroy()
      })
    }
    watch()
    this.#session.ping().then(
      () => this.#schedule(),
      () => undefined, // the session ended, and its owner knows
    )
  }

  #hasAnswered(): boolean {
    return this.#session.bytesRead !== this.#seenBytes
  }

  #after(ms: number, action: (late: boolean) => void): void {
    this.#cancel?.()
    const due = this.#clock.now() + ms
    this.#cancel = this.#clock.after(ms, () => action(this.#clock.now() - due > maxLateMs))
  }
}
