import type { Clock } from '../../../../lib/clock.ts'

/** A kind that fails for so long, while others are followed, is set aside: nobody waits for it longer than a minute. ms */
export const asideMs = 50_000
/** A watch that ends sooner after its begin is no success. ms */
const settledMs = 5000

/** Watches that are live. While there are some, the API server answers, and what fails is the kind itself. */
export class LiveWatches {
  readonly #clock: Clock
  readonly #watches = new Set<object>()
  #since: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Since when there has been one at least. ms since 1970; undefined: there is none */
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
  /** It has failed for `asideMs` while the API server answered others. */
  readonly onLong: () => void
}

/** Measures for how long a list or a watch fails. A short success between two failures does not count. */
export class FailingTime {
  readonly #components: FailingTimeComponents
  /** undefined: it does not fail */
  #since: number | undefined
  /** an attempt since then has failed */
  #hasFailed = false
  #succeededAt: number | undefined
  #cancel: (() => void) | undefined

  constructor(components: FailingTimeComponents) {
    this.#components = components
  }

  /** An attempt begins: where it fails, it has failed since now, or since an attempt before. */
  begin(): void {
    this.#forgetOld()
    this.#since ??= this.#components.clock.now()
    this.#check()
  }

  /** @param since - when its last watch ended; undefined: there was none since its attempt began */
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

  /** It does not fail: it is refused, or it has ended. */
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
