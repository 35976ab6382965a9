import type { Clock } from '../../lib/clock.ts'

/** Moves that are remembered; the oldest makes room. */
const maxMoves = 100

export interface FailedMovesOptions {
  /** a move that did not come out where it should is not tried again for this long. ms */
  readonly retryMs: number
  /** a home that did not answer is tried again after this long. ms */
  readonly unansweredMs: number
  /**
   * While there is no standby, or one at a replica that leaves: one that came out elsewhere is tried again after this long,
   * then twice as long each time, up to `unansweredMs`. ms
   */
  readonly againMs: number
  /** the same for one that did not answer, and that others dial too. ms */
  readonly unansweredAgainMs: number
  /** a replica whose connection was lost, or that was reached and leaves, is not gone back to before. ms */
  readonly lostMs: number
}

export const defaultFailedMoves: FailedMovesOptions = {
  retryMs: 600_000,
  unansweredMs: 60_000,
  againMs: 100,
  unansweredAgainMs: 1000,
  lostMs: 10_000,
}

/**
 * home: to another home. standby: to a standby where there is none that can stay. better standby: to the one that kas has
 * named, in place of another.
 */
export type Move = 'home' | 'standby' | 'better standby'

export interface FailedMovesComponents {
  readonly clock: Clock
  readonly random: () => number
  /** one of them may be tried again */
  readonly onExpired: () => void
}

/**
 * Moves to replicas that were not reached, which are left alone for a while: a quarter shorter or longer each time, as all
 * pods of all agents may fail in the same moment.
 */
export class FailedMoves {
  readonly #components: FailedMovesComponents
  readonly #options: FailedMovesOptions
  /** what cancels the timer of each */
  readonly #moves = new Map<string, () => void>()
  /** moves to a standby that have failed in a row */
  #standbyFailures = 0

  constructor(components: FailedMovesComponents, options: FailedMovesOptions = defaultFailedMoves) {
    this.#components = components
    this.#options = options
  }

  has(move: Move, name: string): boolean {
    return this.#moves.has(`${move} ${name}`)
  }

  /** It did not come out at the replica of this name, but elsewhere or, not `answered`, nowhere. */
  add(move: Move, name: string, { answered }: { answered: boolean }): void {
    this.#add(`${move} ${name}`, this.#waitMs(move, answered))
  }

  /** It came out there, and the replica leaves. */
  leaves(move: Move, name: string): void {
    this.#add(`${move} ${name}`, this.#options.lostMs)
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
    const { againMs, unansweredAgainMs, retryMs, unansweredMs } = this.#options
    if (move === 'standby') {
      // one that leads home leads elsewhere the next time, if it is no front that knows where to
      const firstMs = answered ? againMs : unansweredAgainMs
      return Math.min(firstMs * 2 ** this.#standbyFailures++, unansweredMs)
    }
    return move === 'home' && !answered ? unansweredMs : retryMs
  }

  #add(move: string, ms: number): void {
    this.#remove(move)
    const [oldest] = this.#moves.keys()
    if (oldest !== undefined && this.#moves.size >= maxMoves) this.#remove(oldest)
    const { clock, random, onExpired } = this.#components
    const expire = () => {
      this.#moves.delete(move)
      onExpired()
    }
    this.#moves.set(move, clock.after(Math.round(ms * (0.75 + random() / 2)), expire))
  }

  #remove(move: string): void {
    this.#moves.get(move)?.()
    this.#moves.delete(move)
  }
}
