import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import { abortable } from '../../lib/signals.ts'
import { detached } from '../../lib/tracing/tracer.ts'
import type { CommitId } from './repositories.ts'

export interface BranchWatchComponents {
  /** looks where the branch stands; never called twice at once. `isTold`: of a push, so that somebody waits for it */
  readonly look: (isTold: boolean) => Promise<CommitId | undefined>
  /** makes a look that runs wait less: a push was told meanwhile */
  readonly hurry?: () => void
  readonly clock: Clock
  readonly log: Logger
  /** 0 up to 1 */
  readonly random: () => number
  /** whether this replica polls; else another one does, and tells it by `poke`. Absent: always */
  readonly polls?: () => boolean
  /** called after a look that nobody had told to make found that the branch moved: nobody else may know */
  readonly onFound?: () => void
}

export interface BranchWatchOptions {
  /** from the end of one look to the next while somebody listens, in ms; a quarter of it is jitter */
  readonly pollMs: number
  /** from the first failure in a row to the next look, in ms, then doubled; default: twice `pollMs` */
  readonly minBackoffMs?: number
  /** the longest pause after failures in a row, in ms */
  readonly maxBackoffMs: number
}

/** Who is told of moves looks by itself this much less often: who polls may fail to. */
const unledPolls = 4

interface Sight {
  /** when the look began, and when it ended */
  readonly begunAt: number
  readonly at: number
  readonly result: { readonly commit: CommitId | undefined } | { readonly error: KasError }
}

/** Knows where a branch stands: looks again and again while somebody listens, on demand otherwise. */
export class BranchWatch {
  readonly #components: BranchWatchComponents
  readonly #options: BranchWatchOptions
  readonly #listeners = new Set<() => void>()
  #looking: Promise<Sight> | undefined
  /** a look after the running one */
  #lookingAgain: Promise<void> | undefined
  #isAgainTold = false
  #last: Sight | undefined
  #failures = 0
  /** polls left out, since another replica polls */
  #skipped = 0
  /** when the first of the listeners came */
  #followedSince = 0
  #cancelPoll: (() => void) | undefined
  #stopped = false

  constructor(components: BranchWatchComponents, options: BranchWatchOptions) {
    this.#components = components
    this.#options = options
  }

  /** Whether somebody listens or waits. */
  get inUse(): boolean {
    return this.#listeners.size > 0 || this.#looking !== undefined
  }

  /** When the look began that told what `head` gives, by the clock; undefined: there was none. */
  get seenAt(): number | undefined {
    return this.#last?.begunAt
  }

  /**
   * Where the branch stands as last seen, if that is recent; else looks. Failures count as seen.
   *
   * @throws KasError as the look did, SHUTTING_DOWN
   */
  async head(signal: AbortSignal): Promise<CommitId | undefined> {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const sight = this.#isRecent(this.#last) ? this.#last : await abortable(this.#look(), signal)
    if ('error' in sight.result) throw sight.result.error
    return sight.result.commit
  }

  /**
   * Calls `listener` after the branch moved, or became readable or unreadable, until the returned function is called.
   */
  onMove(listener: () => void): () => void {
    const own = () => listener()
    this.#listeners.add(own)
    if (this.#listeners.size === 1) {
      this.#followedSince = this.#components.clock.now()
      if (this.#isRecent(this.#last)) this.#schedule(this.#pause())
      else if (!this.#looking) this.#schedule(0, () => void this.#look())
    }
    return () => {
      this.#listeners.delete(own)
      if (this.#listeners.size === 0) this.#cancelPoll?.()
    }
  }

  /**
   * Looks now; once more if a look runs, which may have seen what was before the push.
   *
   * @param isTold - by a notice of a push, which all replicas hear, or by another one that found it
   */
  async poke(isTold = true): Promise<void> {
    if (this.#stopped) return
    if (!this.#looking) return void (await this.#look(isTold))
    if (isTold) this.#components.hurry?.()
    this.#isAgainTold ||= isTold
    this.#lookingAgain ??= this.#looking.then(async () => {
      this.#lookingAgain = undefined
      const isOneTold = this.#isAgainTold
      this.#isAgainTold = false
      if (!this.#stopped) await this.#look(isOneTold)
    })
    await this.#lookingAgain
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancelPoll?.()
    this.#listeners.clear()
    await this.#looking
    await this.#lookingAgain
  }

  #isRecent(sight: Sight | undefined): sight is Sight {
    if (!sight) return false
    const isPolled = this.#listeners.size > 0 && sight.at >= this.#followedSince // then it is as good as it gets
    return isPolled || this.#components.clock.now() - sight.at < this.#options.pollMs
  }

  #poll(): void {
    const { polls } = this.#components
    if (!polls || polls() || this.#failures > 0 || ++this.#skipped >= unledPolls) void this.#look()
    else this.#schedule(this.#pause())
  }

  #look(isTold = false): Promise<Sight> {
    this.#cancelPoll?.()
    this.#skipped = 0
    this.#looking ??= detached(() => this.#lookOnce(isTold)).finally(() => {
      this.#looking = undefined
      if (this.#listeners.size > 0) this.#schedule(this.#pause())
    })
    return this.#looking
  }

  async #lookOnce(isTold: boolean): Promise<Sight> {
    let result: Sight['result']
    const begunAt = this.#components.clock.now()
    try {
      result = { commit: await this.#components.look(isTold) }
    } catch (error) {
      result = { error: KasError.from(error) }
    }
    const sight = { begunAt, at: this.#components.clock.now(), result }
    const before = this.#last
    this.#last = sight
    this.#failures = isFailure(result) ? this.#failures + 1 : 0
    if (!this.#stopped && before !== undefined && nameOf(before) !== nameOf(sight)) {
      this.#tell(sight)
      if (!isTold && 'commit' in result) this.#components.onFound?.()
    }
    return sight
  }

  #tell(sight: Sight): void {
    if ('error' in sight.result) this.#components.log.warn({ error: sight.result.error }, 'Repository cannot be read')
    else this.#components.log.debug({ commit_id: sight.result.commit }, 'Branch moved')
    for (const listener of this.#listeners) listener()
  }

  #pause(): number {
    const jitter = 0.875 + this.#components.random() / 4
    const { pollMs, maxBackoffMs, minBackoffMs = pollMs * 2 } = this.#options
    if (this.#failures === 0) return pollMs * jitter
    const longest = Math.max(Math.min(pollMs, minBackoffMs), maxBackoffMs)
    return Math.min(minBackoffMs * 2 ** Math.min(this.#failures - 1, 16), longest) * jitter
  }

  #schedule(ms: number, look = () => this.#poll()): void {
    if (this.#stopped) return
    this.#cancelPoll?.()
    this.#cancelPoll = this.#components.clock.after(ms, look)
  }
}

/** That the branch is not there is an answer: it may stay so for ever, and is looked at like any other. */
function isFailure(result: Sight['result']): boolean {
  return 'error' in result && result.error.code !== 'REF_NOT_FOUND'
}

/** Two sights of one name are the same news. */
function nameOf({ result }: Sight): string {
  return 'error' in result ? result.error.code : (result.commit ?? 'empty')
}
