import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import type { InstanceId, RowDelta, RowSnapshot } from '../table/row.ts'
import type { MembershipTimers } from './timers.ts'

/**
 * Deltas that came while their row was on its way, of one owner; beyond it they are dropped and the row asked again.
 */
const maxPendingBytes = 8 * 1024 * 1024

/** Of this program's time, what the rows of one owner take at the most, if each is fetched as soon as it may be. */
const maxShare = 0.1
/** Of an owner whose row takes longer than this and the share allow. ms */
const maxRestMs = 60_000

export interface AntiEntropyComponents {
  readonly clock: Clock
  /** 0 to 1 */
  random(): number
  /** asks the owner itself */
  pull(owner: InstanceId, signal: AbortSignal): Promise<RowSnapshot>
  /** a row came, and then the deltas that waited for it; returns whether something is still missing */
  pulled(row: RowSnapshot, pending: readonly RowDelta[]): boolean
  failed(owner: InstanceId, error: unknown): void
}

interface Pull {
  /** the newest version that is known of; a row that gets there otherwise makes the pull needless */
  wanted: number
  attempts: number
  /** waiting for its time, if defined; else under way */
  cancelWait: (() => void) | undefined
  deadline: Deadline | undefined
  pending: RowDelta[]
  pendingBytes: number
  /** deltas were dropped: what comes may miss them */
  dropped: boolean
}

/**
 * Fetches rows that are missing or behind from their owners: one pull an owner at a time. A row is put into the table in
 * one piece, so that its owner's next one waits for nine times as long as that took.
 */
export class AntiEntropy {
  readonly #components: AntiEntropyComponents
  readonly #timers: MembershipTimers
  readonly #pulls = new Map<InstanceId, Pull>()
  /** until when no row of theirs is fetched, by the clock; those that may be again are not kept */
  readonly #resting = new Map<InstanceId, number>()

  constructor(components: AntiEntropyComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  /**
   * The row is missing or behind.
   *
   * @param version - absent: the row is fetched at once. Else it waits for a random time: all others may know of the
   *   same version at this moment, or its deltas come in the wrong order
   */
  need(owner: InstanceId, version = Number.POSITIVE_INFINITY): void {
    const spread = version !== Number.POSITIVE_INFINITY
    const known = this.#pulls.get(owner)
    if (known) {
      known.wanted = Math.max(known.wanted, version)
      if (known.cancelWait && known.attempts === 0 && !spread) this.#begin(owner, known)
      return
    }
    const pull: Pull = {
      wanted: version,
      attempts: 0,
      cancelWait: undefined,
      deadline: undefined,
      pending: [],
      pendingBytes: 0,
      dropped: false,
    }
    this.#pulls.set(owner, pull)
    if (spread) this.#wait(owner, pull, this.#components.random() * this.#timers.pullJitterMs)
    else this.#begin(owner, pull)
  }

  /** Keeps a delta until the row is there. @returns false if no pull is wanted or under way */
  keep(owner: InstanceId, delta: RowDelta, bytes: number): boolean {
    const pull = this.#pulls.get(owner)
    if (!pull) return false
    pull.pendingBytes += bytes
    if (pull.pendingBytes > maxPendingBytes) {
      pull.pending = []
      pull.pendingBytes = 0
      pull.dropped = true
    } else pull.pending.push(delta)
    return true
  }

  /**
   * The row moved on to `version` without a pull: pending deltas may fit now.
   *
   * @param apply - returns the version then
   */
  advanced(owner: InstanceId, version: number, apply: (delta: RowDelta) => number): void {
    const pull = this.#pulls.get(owner)
    if (!pull?.cancelWait || pull.dropped) return
    let at = version
    for (const delta of pull.pending.sort(byVersion)) at = apply(delta)
    if (at >= pull.wanted) this.drop(owner)
  }

  /** The owner is out of reach, or the row is there. */
  drop(owner: InstanceId): void {
    const pull = this.#pulls.get(owner)
    if (!pull) return
    this.#pulls.delete(owner)
    pull.cancelWait?.()
    pull.deadline?.abort()
  }

  stop(): void {
    for (const owner of [...this.#pulls.keys()]) this.drop(owner)
  }

  #wait(owner: InstanceId, pull: Pull, ms: number): void {
    pull.cancelWait = this.#components.clock.after(ms, () => this.#begin(owner, pull))
  }

  #begin(owner: InstanceId, pull: Pull): void {
    pull.cancelWait?.()
    pull.cancelWait = undefined
    const restMs = (this.#resting.get(owner) ?? 0) - this.#components.clock.now()
    if (restMs > 0) this.#wait(owner, pull, restMs)
    else void this.#run(owner, pull)
  }

  async #run(owner: InstanceId, pull: Pull): Promise<void> {
    const { clock, pull: fetch, pulled, failed } = this.#components
    const reason = () => new Error('the row did not come')
    const deadline = new Deadline({ ms: this.#timers.pullTimeoutMs, clock, reason })
    pull.deadline = deadline
    let again = true
    try {
      const row = await fetch(owner, deadline.signal)
      if (this.#pulls.get(owner) !== pull) return
      const pending = pull.pending.sort(byVersion)
      const dropped = pull.dropped
      pull.pending = []
      pull.pendingBytes = 0
      pull.dropped = false
      const before = clock.now()
      try {
        again = pulled(row, pending) || dropped
      } finally {
        this.#rest(owner, clock.now() - before)
      }
    } catch (error) {
      if (this.#pulls.get(owner) === pull) failed(owner, error)
    } finally {
      deadline.end()
    }
    if (this.#pulls.get(owner) !== pull) return
    if (again) this.#wait(owner, pull, this.#backoff(pull))
    else this.#pulls.delete(owner)
  }

  #rest(owner: InstanceId, costMs: number): void {
    const now = this.#components.clock.now()
    for (const [other, until] of this.#resting) if (until <= now) this.#resting.delete(other)
    const restMs = Math.min(costMs * (1 / maxShare - 1), maxRestMs)
    if (restMs > 0) this.#resting.set(owner, now + restMs)
  }

  #backoff(pull: Pull): number {
    const { pullRetryMs, pullRetryMaxMs } = this.#timers
    const ms = Math.min(pullRetryMs * 2 ** pull.attempts++, pullRetryMaxMs)
    return ms * (0.5 + this.#components.random() / 2)
  }
}

const byVersion = (a: RowDelta, b: RowDelta) => a.from - b.from
