import type { Clock } from '../../lib/clock.ts'

/** Limit of remembered moves; the oldest makes room. */
const maxMoves = 100

export interface FailedMovesOptions {
  /** pause after a move that reached another replica, in ms */
  readonly retryMs: number
  /** pause after a move to a home that did not answer, in ms */
  readonly unansweredMs: number
  /**
   * First pause, in ms, after a move that reached another replica, while no standby can stay. The pause doubles each
   * time, up to `unansweredMs`.
   */
  readonly againMs: number
  /** the same, in ms, after a move to a replica that did not answer: other agents dial it too */
  readonly unansweredAgainMs: number
  /** pause before a replica is tried again whose connection was lost, or that leaves, in ms */
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
 * home: to another home. standby: to a standby, while none can stay. better standby: from a standby to the replica that
 * kas has named.
 */
export type Move = 'home' | 'standby' | 'better standby'

export interface FailedMovesComponents {
  readonly clock: Clock
  readonly random: () => number
  /** called when a move may be tried again */
  readonly onExpired: () => void
}

/**
 * Moves to replicas that were not reached. Each waits before it is tried again. The pause varies by a quarter, because
 * all pods of all agents may fail at the same moment.
 */
export class FailedMoves {
  readonly #components: FailedMovesComponents
  readonly #options: FailedMovesOptions
  /** cancel functions of the timers, by move and name of the replica */
  readonly #moves = new Map<string, () => void>()
  /** failed moves to a standby in a row */
  #standbyFailures = 0

  constructor(components: FailedMovesComponents, options: FailedMovesOptions = defaultFailedMoves) {
    this.#components = components
    this.#options = options
  }

  has(move: Move, name: string): boolean {
    return this.#moves.has(`${move} ${name}`)
  }

  /** Adds a move that reached another replica than the named one or, if not `answered`, none. */
  add(move: Move, name: string, { answered }: { answered: boolean }): void {
    this.#add(`${move} ${name}`, this.#waitMs(move, answered))
  }

  /** Adds a move that reached the replica, which leaves. */
  leaves(move: Move, name: string): void {
    this.#add(`${move} ${name}`, this.#options.lostMs)
  }

  /** Adds the moves to a replica whose connection was lost. */
  lost(name: string): void {
    for (const move of ['home', 'standby'] as const) this.#add(`${move} ${name}`, this.#options.lostMs)
  }

  /** Resets the growing pause, because there is a standby that can stay. */
  found(): void {
    this.#standbyFailures = 0
  }

  /** Ends the pauses of moves to a standby, because the standby is lost and another is tried at once. */
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
      // a front that knows no way to the named replica leads elsewhere the next time
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
