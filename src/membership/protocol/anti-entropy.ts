import type { Clock } from '../../lib/clock.ts'
import { Deadline } from '../../lib/deadline.ts'
import type { InstanceId, RowDelta, RowSnapshot } from '../table/row.ts'
import type { MembershipTimers } from './timers.ts'

/**
 * Bound of the deltas of one owner that came while its row was being fetched. Above it they are dropped, and the row is
 * fetched again.
 */
const maxPendingBytes = 8 * 1024 * 1024

/** Bound of the share of this program's time for the rows of one owner, if each is fetched as soon as possible. */
const maxShare = 0.1
/** Bound of the rest between two rows of one owner, even if its share is exceeded. ms */
const maxRestMs = 60_000

export interface AntiEntropyComponents {
  readonly clock: Clock
  /** 0 to 1 */
  random(): number
  /** asks the owner itself */
  pull(owner: InstanceId, signal: AbortSignal): Promise<RowSnapshot>
  /** takes a row, and then the deltas that waited for it; returns true if something is still missing */
  pulled(row: RowSnapshot, pending: readonly RowDelta[]): boolean
  failed(owner: InstanceId, error: unknown): void
}

interface Pull {
  /** the newest known version; if the row reaches it by deltas, the pull is dropped */
  wanted: number
  attempts: number
  /** set while the pull waits for its time; undefined: it is running */
  cancelWait: (() => void) | undefined
  deadline: Deadline | undefined
  pending: RowDelta[]
  pendingBytes: number
  /** true: deltas were dropped, and the row may lack them */
  dropped: boolean
}

/**
 * Fetches rows that are missing or outdated from their owners, one pull at a time for each owner. A row is put into the
 * table in one piece. So the next row of its owner waits for nine times as long as that took.
 */
export class AntiEntropy {
  readonly #components: AntiEntropyComponents
  readonly #timers: MembershipTimers
  readonly #pulls = new Map<InstanceId, Pull>()
  /** end of the rest of each owner, by the clock; ended rests are removed */
  readonly #resting = new Map<InstanceId, number>()

  constructor(components: AntiEntropyComponents, timers: MembershipTimers) {
    this.#components = components
    this.#timers = timers
  }

  /**
   * Fetches a row that is missing or outdated.
   *
   * @param version - absent: the row is fetched at once. Otherwise it waits for a random time. All other instances may
   *   learn of the same version at this moment, or its deltas come in the wrong order.
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

  /**
   * Keeps a delta until the row has come.
   *
   * @returns false: no pull of the row waits or runs
   */
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
   * Applies pending deltas, which may fit now that the row has reached `version` without a pull.
   *
   * @param apply - returns the new version
   */
  advanced(owner: InstanceId, version: number, apply: (delta: RowDelta) => number): void {
    const pull = this.#pulls.get(owner)
    if (!pull?.cancelWait || pull.dropped) return
    let at = version
    for (const delta of pull.pending.sort(byVersion)) at = apply(delta)
    if (at >= pull.wanted) this.drop(owner)
  }

  /** Ends the pull, because the owner cannot be reached, or the row is complete. */
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
