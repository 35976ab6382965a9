import type { Clock } from '../../lib/clock.ts'
import { Counter } from '../../lib/counter.ts'
import { abortable } from '../../lib/signals.ts'
import { type Agent, rootGroupOf } from '../agent.ts'

export interface Turn {
  /** what was read before may be old */
  readonly hadToWait: boolean
  /** @param costMs - CPU time that it took */
  end(costMs: number): void
}

/** 8 MiB of the largest files. */
const defaultMaxTurns = 64
/** What others may find before them at the one thread: who has a group may have any number of projects in it. */
const defaultMaxTurnsOfGroup = 4
/** Half of the longest that an event loop may stall. */
const defaultBurstMs = 100
/** A project that changes its files without end gets a tenth of the time of a thread. */
const restFactor = 10

/** Whose agent it is. */
type Owner = Agent['project']

interface Project {
  isTaken: boolean
  /** until its share makes up for what it took; as it was at `at`, by the clock */
  restMs: number
  at: number
  cancelRest: () => void
}

interface Waiting {
  readonly owner: Owner
  readonly begin: () => void
}

/**
 * Who may read an agent's configuration file now: one at a time of each project, first come, first served, and none of
 * a project that took more than its share, until it has rested. A root group has a few turns at once. Those who wait hold nothing.
 */
export class ProjectTurns {
  readonly #clock: Clock
  readonly #maxTurns: number
  readonly #maxTurnsOfGroup: number
  readonly #burstRestMs: number
  /** with a turn, or not yet rested */
  readonly #projects = new Map<bigint, Project>()
  /** by root group */
  readonly #turns = new Counter<string>()
  #waiting: Waiting[] = []

  constructor(
    clock: Clock,
    options: {
      /** turns at once, of as many projects: each may hold a file */
      readonly maxTurns?: number
      /** of them, of projects in one root group */
      readonly maxTurnsOfGroup?: number
      /** what a project may take at once before its share counts, in ms of CPU time */
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
   * @param options.waits - called at once where it has to wait: what was read before may be old, and is not kept
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
      else void promise.then((turn) => turn.end(0)) // it had come: it is handed on
      throw error
    }
  }

  /** Forgets what projects took; turns that run may end later. */
  stop(): void {
    for (const { cancelRest } of this.#projects.values()) cancelRest()
    this.#projects.clear()
  }

  /** There is a turn for it now. */
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
        known.restMs = this.#restOf(known) + Math.ceil(costMs) * restFactor // whole: what is left of a fraction never ends
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

  /** A clock that was set back lengthens it by no more than what is left. */
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
