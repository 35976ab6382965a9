/** What a Lease says, as far as it matters here. */
export interface LeaseRecord {
  /** empty: released */
  readonly holder: string
  readonly durationSeconds: number
  readonly acquireTime: string
  readonly renewTime: string
  readonly transitions: number
  /** of the object, so that only the reader of this very version can write the next */
  readonly resourceVersion: string
}

/** Milliseconds. Together as Kubernetes' own leader election has them. */
export interface LeaderTimes {
  /** others wait this long after a renewal before they take over */
  readonly leaseMs: number
  /** a leader that could not renew for this long must not act */
  readonly renewDeadlineMs: number
  /** between attempts */
  readonly retryMs: number
}

export const stockTimes: LeaderTimes = { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000 }

/**
 * A moment on both clocks. Node has no clock that runs on while the machine sleeps and never jumps: `monotonic` stops
 * during sleep, `wall` can be set.
 */
export interface Moment {
  readonly monotonic: number
  readonly wall: number
}

export type Step = 'create' | 'renew' | 'take' | 'wait'

/**
 * Who may lead, decided without sockets or timers of its own. Safe against a process that froze or slept: a leader
 * counts the longer of both clocks since the **beginning** of its last renewal and stops acting before the others may
 * begin; the others count the monotonic clock, which never runs ahead.
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

  /** Whose lease it is as far as we know, empty for nobody's. */
  get holder(): string {
    return this.#record?.holder ?? ''
  }

  /** Whether this process may act now. Ask before each action. */
  holds(): boolean {
    if (!this.#renewedAt) return false
    const { monotonic, wall } = this.#now()
    const elapsed = Math.max(monotonic - this.#renewedAt.monotonic, wall - this.#renewedAt.wall)
    return elapsed < this.#times.renewDeadlineMs
  }

  /** The lease was read (undefined: there is none). @returns what to do about it */
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

  /** Our write was accepted. @param startedAt - when the attempt began, before the lease was read */
  granted(record: LeaseRecord, startedAt: Moment): void {
    this.#record = record
    this.#observedAt = startedAt
    this.#renewedAt = startedAt
  }

  /** We gave it up. */
  released(): void {
    this.#renewedAt = undefined
  }

  /** The holder let go, or did not renew while we watched. */
  #isFree({ holder, durationSeconds }: LeaseRecord): boolean {
    if (!holder) return true
    const waitMs = Math.max(this.#times.leaseMs, durationSeconds * 1000)
    return this.#now().monotonic - (this.#observedAt as Moment).monotonic > waitMs
  }
}
