import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import { abortable } from '../../lib/signals.ts'
import { detached } from '../../lib/tracing/tracer.ts'
import type { CommitId } from './repositories.ts'

export interface BranchWatchComponents {
  /**
   * polls the branch; runs one at a time. `isNotified`: after a notice of a push, so that a caller waits for the result
   */
  readonly poll: (isNotified: boolean) => Promise<CommitId | undefined>
  /** shortens the wait of a running poll: a caller waits for it, or a notice of a push came meanwhile */
  readonly hurry?: (isNotified: boolean) => void
  /** Name of the default branch as the poll that just ended found it; absent or undefined: it is not known. */
  readonly branch?: (() => string | undefined) | undefined
  readonly clock: Clock
  readonly log: Logger
  /** from 0 up to 1 */
  readonly random: () => number
  /** true if this replica polls now; otherwise a peer polls, and its finds come by `poke`. Absent: always */
  readonly polls?: (() => boolean) | undefined
  /** period that the current listeners need, in ms; absent: `pollMs` of the options */
  readonly pollMs?: (() => number) | undefined
  /**
   * called after a poll without a notice found that the branch moved, appeared or disappeared. The module
   * `notifications` reports it to peers, which may not know it
   */
  readonly onFound?: () => void
}

export interface BranchWatchOptions {
  /** from the end of one poll to the next while there are listeners, in ms; up to an eighth more is jitter */
  readonly pollMs: number
  /** True: the first pause is a random part of a period, so that watches that begin together do not poll together. */
  readonly isSpread?: boolean
  /** periods that a replica skips while another one polls, which may fail to. Default: three of four */
  readonly maxSkipped?: number
  /** from the first failure in a row to the next poll, in ms; doubles with each failure; default: twice `pollMs` */
  readonly minBackoffMs?: number
  /** the longest pause after failures in a row, in ms */
  readonly maxBackoffMs: number
}

/** Periods skipped by default: a replica that is notified of moves polls once in four periods. */
const defaultMaxSkipped = 3

interface Polled {
  /** when the poll began, and when it ended */
  readonly begunAt: number
  readonly at: number
  readonly result:
    | { readonly commit: CommitId | undefined; readonly branch?: string | undefined }
    | { readonly error: KasError }
}

/** Knows the commit of a branch. Polls periodically while there are listeners, otherwise on demand. */
export class BranchWatch {
  readonly #components: BranchWatchComponents
  readonly #options: BranchWatchOptions
  readonly #listeners = new Listeners()
  #polling: Promise<Polled> | undefined
  /** a poll after the running one */
  #pollingAgain: Promise<void> | undefined
  #isAgainNotified = false
  #last: Polled | undefined
  #readAt: number | undefined
  #failures = 0
  /** polls skipped because another replica polls */
  #skipped = 0
  /** when the first of the current listeners came */
  #followedSince = 0
  #cancelPoll: (() => void) | undefined
  #hasPaused = false
  /** when the next poll is due, by the clock */
  #dueAt = 0
  #stopped = false

  constructor(components: BranchWatchComponents, options: BranchWatchOptions) {
    this.#components = components
    this.#options = options
  }

  /** True while there are listeners or a poll runs. */
  get inUse(): boolean {
    return this.#listeners.size > 0 || this.#polling !== undefined
  }

  /** Time at which the poll behind `head` began, by the clock; undefined: there was none. */
  get seenAt(): number | undefined {
    return this.#last?.begunAt
  }

  /** Time at which any replica last could read the repository, by the clock; undefined: not known. */
  get readAt(): number | undefined {
    return this.#readAt
  }

  /** Records that a peer could read the repository at this time. */
  peerRead(at: number): void {
    this.#readAt = Math.max(at, this.#readAt ?? at)
  }

  /** Commit of the branch at the last poll; undefined: the branch was missing, or the poll failed. */
  get commit(): CommitId | undefined {
    return this.#last && 'commit' in this.#last.result ? this.#last.result.commit : undefined
  }

  /** Name of the default branch at the last poll; undefined: it is not known. */
  get branch(): string | undefined {
    return this.#last && 'commit' in this.#last.result ? this.#last.result.branch : undefined
  }

  /** The last poll has failed. */
  get isFailing(): boolean {
    return this.#failures > 0
  }

  /**
   * Returns the commit of the last poll if that is recent; otherwise polls. A failed poll counts too.
   *
   * @throws KasError as the poll did, SHUTTING_DOWN
   */
  async head(signal: AbortSignal): Promise<CommitId | undefined> {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const polled = this.#isRecent(this.#last) ? this.#last : await abortable(this.#poll(), signal)
    if ('error' in polled.result) throw polled.result.error
    return polled.result.commit
  }

  /**
   * Calls `listener` after the branch moved, or became readable or unreadable, until the returned function is called.
   */
  onMove(listener: () => void): () => void {
    const remove = this.#listeners.add(listener)
    if (this.#listeners.size === 1) {
      this.#followedSince = this.#components.clock.now()
      if (this.#isRecent(this.#last)) this.#schedule(this.#pause())
      else if (!this.#polling) this.#schedule(0, () => void this.#poll())
    }
    return () => {
      remove()
      if (this.#listeners.size === 0) this.#cancelPoll?.()
    }
  }

  /** Shortens the wait of a running poll: a caller has nothing until the poll ends. */
  hurry(): void {
    this.#components.hurry?.(false)
  }

  /**
   * Polls now. If a poll runs, which may have begun before the push, polls once more after it.
   *
   * @param isNotified - by a notice that all replicas get, or by a peer: peers know of the push. A hook is known here alone.
   */
  async pollNow(isNotified = true): Promise<void> {
    if (this.#stopped) return
    if (!this.#polling) return void (await this.#poll(isNotified))
    if (isNotified) this.#components.hurry?.(true)
    this.#isAgainNotified ||= isNotified
    this.#pollingAgain ??= this.#polling.then(async () => {
      this.#pollingAgain = undefined
      const isNotified = this.#isAgainNotified
      this.#isAgainNotified = false
      if (!this.#stopped) await this.#poll(isNotified)
    })
    await this.#pollingAgain
  }

  /** Reschedules the next poll if the period is shorter now. */
  periodChanged(): void {
    if (this.#polling || this.#listeners.size === 0) return
    const pause = this.#pause()
    if (this.#components.clock.now() + pause < this.#dueAt) this.#schedule(pause)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelPoll?.()
    this.#listeners.clear()
    await this.#polling
    await this.#pollingAgain
  }

  get #pollMs(): number {
    return this.#components.pollMs?.() ?? this.#options.pollMs
  }

  #isRecent(polled: Polled | undefined): polled is Polled {
    if (!polled) return false
    const isPolled = this.#listeners.size > 0 && polled.at >= this.#followedSince // its last poll is recent enough
    return isPolled || this.#components.clock.now() - polled.at < this.#pollMs
  }

  #pollInTurn(): void {
    const { polls } = this.#components
    const { maxSkipped = defaultMaxSkipped } = this.#options
    if (!polls || polls() || this.#failures > 0 || this.#skipped++ >= maxSkipped) void this.#poll()
    else this.#schedule(this.#pause())
  }

  #poll(isNotified = false): Promise<Polled> {
    this.#cancelPoll?.()
    this.#skipped = 0
    this.#polling ??= detached(() => this.#pollOnce(isNotified)).finally(() => {
      this.#polling = undefined
      if (this.#listeners.size > 0) this.#schedule(this.#pause())
    })
    return this.#polling
  }

  async #pollOnce(isNotified: boolean): Promise<Polled> {
    let result: Polled['result']
    const begunAt = this.#components.clock.now()
    try {
      result = { commit: await this.#components.poll(isNotified), branch: this.#components.branch?.() }
    } catch (error) {
      result = { error: KasError.from(error) }
    }
    const polled = { begunAt, at: this.#components.clock.now(), result }
    const before = this.#last
    this.#last = polled
    this.#failures = isFailure(result) ? this.#failures + 1 : 0
    if (this.#failures === 0) this.peerRead(begunAt)
    if (!this.#stopped && before !== undefined && nameOf(before) !== nameOf(polled)) {
      this.#notify(polled)
      if (!isNotified && !isFailure(result)) this.#components.onFound?.()
    }
    return polled
  }

  #notify(polled: Polled): void {
    if ('error' in polled.result) this.#components.log.warn({ error: polled.result.error }, 'Repository cannot be read')
    else this.#components.log.debug({ commit_id: polled.result.commit }, 'Branch moved')
    this.#listeners.notify()
  }

  #pause(): number {
    const jitter = 1 + this.#components.random() / 8 // never sooner: servers limit requests
    const pollMs = this.#pollMs
    const { maxBackoffMs, minBackoffMs = pollMs * 2, isSpread } = this.#options
    const isFirst = !this.#hasPaused
    this.#hasPaused = true
    if (this.#failures === 0) return isFirst && isSpread ? pollMs * (1 - this.#components.random()) : pollMs * jitter
    const longest = Math.max(Math.min(pollMs, minBackoffMs), maxBackoffMs)
    return Math.min(minBackoffMs * 2 ** Math.min(this.#failures - 1, 16), longest) * jitter
  }

  #schedule(ms: number, action = () => this.#pollInTurn()): void {
    if (this.#stopped) return
    this.#cancelPoll?.()
    this.#dueAt = this.#components.clock.now() + ms
    this.#cancelPoll = this.#components.clock.after(ms, action)
  }
}

/** True if a poll failed. A missing branch is no failure: it may stay missing, and is polled like any other. */
function isFailure(result: Polled['result']): boolean {
  return 'error' in result && result.error.code !== 'REF_NOT_FOUND'
}

/** Text that is equal for two polls with the same result. */
function nameOf({ result }: Polled): string {
  return 'error' in result ? result.error.code : [result.commit ?? 'empty', result.branch].join(' ')
}
