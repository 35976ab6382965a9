import type { Clock } from '../../../../lib/clock.ts'

/** A kind that fails this long, while others are followed, is set aside: nobody waits more than a minute. ms */
export const asideMs = 50_000
/** A watch that ends sooner after its begin is no success. ms */
const settledMs = 5000

/** Watches that are live. While there are any, the API server answers, and a failure is one of the kind itself. */
export class LiveWatches {
  readonly #clock: Clock
  readonly #watches = new Set<object>()
  #since: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Time since which at least one watch is live, in ms since 1970; undefined: none is live. */
  get since(): number | undefined {
    return this.#since
  }

  add(watch: object): void {
    if (this.#watches.size === 0) this.#since = this.#clock.now()
    this.#watches.add(watch)
  }

  delete(watch: object): void {
    if (this.#watches.delete(watch) && this.#watches.size === 0) this.#since = undefined
  }
}

export interface FailingTimeComponents {
  readonly clock: Clock
  readonly live: Pick<LiveWatches, 'since'>
  /** called when the kind has failed for `asideMs` while the API server answered for others */
  readonly onLong: () => void
}

/** Measures how long a list or a watch fails. A short success between two failures does not count. */
export class FailingTime {
  readonly #components: FailingTimeComponents
  /** begin of the first attempt that failed, or of the one that runs; undefined: there is none */
  #since: number | undefined
  /** an attempt has failed since then */
  #hasFailed = false
  #succeededAt: number | undefined
  #cancel: (() => void) | undefined

  constructor(components: FailingTimeComponents) {
    this.#components = components
  }

  /** An attempt begins. If it fails, the failure counts from now, or from an earlier attempt. */
  begin(): void {
    this.#forgetOld()
    this.#since ??= this.#components.clock.now()
    this.#check()
  }

  /** @param since - end of the last watch; undefined: there was none since the attempt began */
  failed(since: number | undefined): void {
    this.#forgetOld()
    this.#succeededAt = undefined
    this.#since ??= since ?? this.#components.clock.now()
    this.#hasFailed = true
    this.#check()
  }

  succeeded(): void {
    this.#succeededAt ??= this.#components.clock.now()
    this.#rest()
  }

  /** Forgets failures: the kind is refused, or the watch has ended. */
  end(): void {
    this.#rest()
    this.#since = undefined
    this.#succeededAt = undefined
    this.#hasFailed = false
  }

  #forgetOld(): void {
    const now = this.#components.clock.now()
    if (this.#succeededAt !== undefined && now - this.#succeededAt >= settledMs) this.end()
  }

  #check(): void {
    this.#rest()
    const { clock, live, onLong } = this.#components
    // the next failure checks again
    if (!this.#hasFailed || this.#since === undefined || live.since === undefined) return
    const leftMs = Math.max(this.#since, live.since) + asideMs - clock.now()
    if (leftMs <= 0) onLong()
    else this.#cancel = clock.after(leftMs, () => this.#check())
  }

  #rest(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }
}
