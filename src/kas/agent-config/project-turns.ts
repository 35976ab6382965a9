import type { Clock } from '../../lib/clock.ts'
import { Counter } from '../../lib/counter.ts'
import { abortable } from '../../lib/signals.ts'
import { type Agent, rootGroupOf } from '../agent.ts'

export interface Turn {
  /** true: data that was read before the wait may be outdated */
  readonly hadToWait: boolean
  /** @param costMs - CPU time of the turn */
  end(costMs: number): void
}

/** Bound of turns at once: 8 MiB of the largest files. */
const defaultMaxTurns = 64
/**
 * Bound of one root group's turns at once, because a group may have any number of projects. Others wait behind them for
 * the one thread.
 */
const defaultMaxTurnsOfGroup = 4
/** Half of the longest accepted stall of an event loop. ms */
const defaultBurstMs = 100
/** Rest after each cost: a project that always changes its files gets a tenth of the time of a thread. */
const restFactor = 10

/** Project of the agent. */
type Owner = Agent['project']

interface Project {
  isTaken: boolean
  /** time until the project has rested, as of `at`, by the clock. ms */
  restMs: number
  at: number
  cancelRest: () => void
}

interface Waiting {
  readonly owner: Owner
  readonly begin: () => void
}

/**
 * Turns for reading agents' configuration files. Each project has one turn at a time, first come, first served. A
 * project that took more than its share gets none until it has rested. A root group has a few turns at once. Waiting
 * reads keep no data.
 */
export class ProjectTurns {
  readonly #clock: Clock
  readonly #maxTurns: number
  readonly #maxTurnsOfGroup: number
  readonly #burstRestMs: number
  /** projects with a turn, or that still rest */
  readonly #projects = new Map<bigint, Project>()
  /** turns by root group */
  readonly #turns = new Counter<string>()
  #waiting: Waiting[] = []

  constructor(
    clock: Clock,
    options: {
      /** turns at once, each of another project: each may keep a file in memory */
      readonly maxTurns?: number
      /** turns at once, of projects in one root group */
      readonly maxTurnsOfGroup?: number
      /** CPU time that a project may take at once before its share counts. ms */
      readonly burstMs?: number
    } = {},
  ) {
    this.#clock = clock
    this.#maxTurns = options.maxTurns ?? defaultMaxTurns
    this.#maxTurnsOfGroup = options.maxTurnsOfGroup ?? defaultMaxTurnsOfGroup
    this.#burstRestMs = (options.burstMs ?? defaultBurstMs) * restFactor
  }

  /**
   * @param options.signal - ends the wait
   * @param options.waits - called at once if it has to wait: data that was read before may be outdated, and should be
   *   dropped
   */
  async take(owner: Owner, { signal, waits }: { signal: AbortSignal; waits?: () => void }): Promise<Turn> {
    signal.throwIfAborted()
    if (this.#isFree(owner)) return this.#begin(owner, false)
    waits?.()
    const { promise, resolve } = Promise.withResolvers<Turn>()
    const waiting = { owner, begin: () => resolve(this.#begin(owner, true)) }
    this.#waiting.push(waiting)
    try {
      return await abortable(promise, signal)
    } catch (error) {
      if (this.#waiting.includes(waiting)) this.#waiting = this.#waiting.filter((other) => other !== waiting)
      else void promise.then((turn) => turn.end(0)) // the turn had come, so it goes to the next
      throw error
    }
  }

  /** Drops the rests of projects; running turns may end later. */
  stop(): void {
    for (const { cancelRest } of this.#projects.values()) cancelRest()
    this.#projects.clear()
  }

  /** True if the owner can have a turn now. */
  #isFree(owner: Owner): boolean {
    if (this.#turns.total >= this.#maxTurns) return false
    if (this.#turns.of(rootGroupOf(owner.path)) >= this.#maxTurnsOfGroup) return false
    const known = this.#projects.get(owner.id)
    return !known || (!known.isTaken && this.#restOf(known) <= this.#burstRestMs)
  }

  #begin(owner: Owner, hadToWait: boolean): Turn {
    const { id } = owner
    const now = this.#clock.now()
    const known = this.#projects.get(id) ?? { isTaken: true, restMs: 0, at: now, cancelRest: () => undefined }
    known.isTaken = true
    this.#projects.set(id, known)
    this.#turns.add(rootGroupOf(owner.path))
    return {
      hadToWait,
      end: (costMs) => {
        this.#turns.add(rootGroupOf(owner.path), -1)
        known.isTaken = false
        known.restMs = this.#restOf(known) + Math.ceil(costMs) * restFactor // whole ms: fractions do not end
        if (this.#projects.get(id) === known) this.#rest(id, known)
        this.#beginNext()
      },
    }
  }

  #rest(id: bigint, project: Project): void {
    project.cancelRest()
    const restMs = this.#restOf(project)
    if (restMs === 0 && !project.isTaken) this.#projects.delete(id)
    if (restMs === 0) return
    const overBurstMs = restMs - this.#burstRestMs
    project.cancelRest = this.#clock.after(overBurstMs > 0 ? overBurstMs : restMs, () => {
      this.#rest(id, project)
      this.#beginNext()
    })
  }

  /** Remaining rest. A clock that was set back lengthens it by no more than the remaining time. */
  #restOf(project: Project): number {
    const now = this.#clock.now()
    project.restMs = Math.max(0, project.restMs - Math.max(0, now - project.at))
    project.at = now
    return project.restMs
  }

  #beginNext(): void {
    for (const waiting of this.#waiting) {
      if (this.#turns.total >= this.#maxTurns) return
      if (!this.#isFree(waiting.owner)) continue
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      waiting.begin()
    }
  }
}
