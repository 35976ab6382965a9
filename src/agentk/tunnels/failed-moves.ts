import type { Clock } from '../../lib/clock.ts'

/** Moves that are remembered; the oldest makes room. */
const maxMoves = 100

export interface FailedMovesOptions {
  /** a move that did not come out where it should is not tried again for this long. ms */
  readonly retryMs: number
  /** a home that did not answer is tried again after this long. ms */
  readonly unansweredMs: number
  /**
   * While there is no standby, or one at a replica that leaves: one is tried again after this long, then twice as long
   * each time, up to `unansweredMs`. ms
   */
  readonly againMs: number
  /** a replica whose connection was lost is not gone back to before. ms */
  readonly lostMs: number
}

export const defaultFailedMoves: FailedMovesOptions = {
  retryMs: 600_000,
  unansweredMs: 60_000,
  againMs: 100,
  lostMs: 10_000,
}

/**
 * home: to another home. standby: to a standby where there is none that can stay. better standby: to the one that kas has
 * named, in place of another.
 */
export type Move = 'home' | 'standby' | 'better standby'

/** Moves to replicas that were not reached, which are left alone for a while. */
export class FailedMoves {
  readonly #clock: Clock
  readonly #onExpired: () => void
  readonly #options: FailedMovesOptions
  /** what cancels the timer of each */
  readonly #moves = new Map<string, () => void>()
  /** moves to a standby that have failed in a row */
  #standbyFailures = 0

  /** @param onExpired - one of them may be tried again */
  constructor(
    { clock, onExpired }: { clock: Clock; onExpired: () => void },
    options: FailedMovesOptions = defaultFailedMoves,
  ) {
    this.#clock = clock
    this.#onExpired = onExpired
    this.#options = options
  }

  has(move: Move, name: string): boolean {
    return this.#moves.has(`${move} ${name}`)
  }

  /** It did not come out at the replica of this name, but elsewhere or, not `answered`, nowhere. */
  add(move: Move, name: string, { answered }: { answered: boolean }): void {
    this.#add(`${move} ${name}`, this.#waitMs(move, answered))
  }

  /** The connection to the replica was lost. */
  lost(name: string): void {
    for (const move of ['home', 'standby'] as const) this.#add(`${move} ${name}`, this.#options.lostMs)
  }

  /** There is a standby that can stay. */
  found(): void {
    this.#standbyFailures = 0
  }

  /** The standby that there was is gone: another is tried at once. */
  again(): void {
    this.#standbyFailures = 0
    for (const move of [...this.#moves.keys()]) if (move.startsWith('standby ')) this.#remove(move)
  }

  clear(): void {
    for (const move of [...this.#moves.keys()]) this.#remove(move)
  }

  #waitMs(move: Move, answered: boolean): number {
    const { againMs, retryMs, unansweredMs } = this.#options
    // one that leads home leads elsewhere the next time, if it is no front that knows where to
    if (move === 'standby') return Math.min(againMs * 2 ** this.#standbyFailures++, unansweredMs)
    return move === 'home' && !answered ? unansweredMs : retryMs
  }

  #add(move: string, ms: number): void {
    this.#remove(move)
    const [oldest] = this.#moves.keys()
    if (oldest !== undefined && this.#moves.size >= maxMoves) this.#remove(oldest)
    const expire = () => {
      this.#moves.delete(move)
      this.#onExpired()
    }
    this.#moves.set(move, this.#clock.after(ms, expire))
  }

  #remove(move: string): void {
    this.#moves.get(move)?.()
    this.#moves.delete(move)
  }
}
