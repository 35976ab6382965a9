/** Fields of a Lease that the election uses. */
export interface LeaseRecord {
  /** empty: released */
  readonly holder: string
  readonly durationSeconds: number
  readonly acquireTime: string
  readonly renewTime: string
  readonly transitions: number
  /** of the object: only a process that has read this version can write the next */
  readonly resourceVersion: string
}

/** Times in ms, in the proportions of Kubernetes' own leader election. */
export interface LeaderTimes {
  /** others wait this long after a renewal before they take over */
  readonly leaseMs: number
  /** a leader that could not renew for this long must not act */
  readonly renewDeadlineMs: number
  /** pause between attempts */
  readonly retryMs: number
}

export const stockTimes: LeaderTimes = { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 }

/**
 * A moment on both clocks: `monotonic` stops while the machine sleeps, `wall` can be set. Node has no clock that does
 * neither.
 */
export interface Moment {
  readonly monotonic: number
  readonly wall: number
}

export type Step = 'create' | 'renew' | 'take' | 'wait'

/**
 * Decides which process may lead, without sockets or timers of its own. A process that freezes or sleeps does no harm:
 * it stops acting before another one may begin. The leader counts the longer of both clocks since the **beginning** of
 * its last renewal. Others count the monotonic clock, which never runs ahead.
 */
export class LeaderRule {
  readonly #identity: string
  readonly #times: LeaderTimes
  readonly #now: () => Moment
  #record: LeaseRecord | undefined
  #observedAt: Moment | undefined
  #renewedAt: Moment | undefined

  constructor(identity: string, times: LeaderTimes, now: () => Moment) {
    this.#identity = identity
    this.#times = times
    this.#now = now
  }

  /** Holder of the lease as far as this process knows; empty: none. */
  get holder(): string {
    return this.#record?.holder ?? ''
  }

  /** True if this process may act now. Ask before each action. */
  holds(): boolean {
    if (!this.#renewedAt) return false
    const { monotonic, wall } = this.#now()
    const elapsed = Math.max(monotonic - this.#renewedAt.monotonic, wall - this.#renewedAt.wall)
    return elapsed < this.#times.renewDeadlineMs
  }

  /** Takes a lease that was read; undefined: there is none. @returns the step that follows */
  observe(record: LeaseRecord | undefined): Step {
    const before = this.#record
    if (record?.resourceVersion !== before?.resourceVersion) this.#observedAt = this.#now()
    this.#record = record
    if (!record) {
      this.#renewedAt = undefined
      return 'create'
    }
    if (record.holder === this.#identity) return 'renew'
    this.#renewedAt = undefined
    return this.#isFree(record) ? 'take' : 'wait'
  }

  /** This process's write was accepted. @param startedAt - begin of the attempt, before the lease was read */
  granted(record: LeaseRecord, startedAt: Moment): void {
    this.#record = record
    this.#observedAt = startedAt
    this.#renewedAt = startedAt
  }

  /** Ends the term: this process gives the lease up. */
  released(): void {
    this.#renewedAt = undefined
  }

  /** True if the holder has released the lease, or did not renew it while this process watched. */
  #isFree({ holder, durationSeconds }: LeaseRecord): boolean {
    if (!holder) return true
    const waitMs = Math.max(this.#times.leaseMs, durationSeconds * 1000)
    return this.#now().monotonic - (this.#observedAt as Moment).monotonic > waitMs
  }
}
