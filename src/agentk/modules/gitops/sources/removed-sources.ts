import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText, KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { abortable, linkedController } from '../../../../lib/signals.ts'
import { needsNoRetry } from '../outcome.ts'
import type { RemovalInput } from '../reconcile.ts'
import type { RoundDone } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Report } from '../state/source-state.ts'
import { type Next, ReconcileQueue, retryBackoff } from './reconcile-queue.ts'
import { type SourceWorkComponents, settleMs } from './source-work.ts'

export interface RemovedSourcesComponents extends Pick<SourceWorkComponents, 'people'> {
  /** of which this agent keeps an inventory. @throws: it is tried again */
  readonly stored: (signal: AbortSignal) => Promise<readonly SourceOptions[]>
  /** a configuration that was read whole has it no longer */
  readonly hasLeft: (options: SourceOptions) => boolean
  /** and nothing of it is left */
  readonly onRemoved: (options: SourceOptions) => void
  /** decides upon all that it has made. @throws: it is tried again */
  readonly reconcile: (input: RemovalInput, options: SourceOptions, signal: AbortSignal) => Promise<RoundDone>
  /** lets go of all that it has made. @throws: it is tried again */
  readonly forget: (options: SourceOptions, signal: AbortSignal) => Promise<void>
  readonly report: (options: SourceOptions, report: Extract<Report, { kind: `removal${string}` }>) => void
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/** One that has left. */
interface Removed {
  readonly options: SourceOptions
  /** of the round that runs */
  superseded: AbortController
  /** nothing of it is left */
  readonly ended: AbortController
}

/**
 * Sources that have left the configuration: what they have made stays, and is reported, or goes once that is approved. Each
 * by itself: one that waits delays no other.
 */
export class RemovedSources {
  readonly #components: RemovedSourcesComponents
  readonly #queue: ReconcileQueue<Removed>
  /** by id, of those that have left */
  readonly #running = new Map<string, { readonly removed: Removed; readonly done: Promise<void> }>()
  #wake = Promise.withResolvers<void>()
  #listed = Promise.resolve()
  /** what its source, or the pod that led before, has sent may not have landed yet */
  #mayHaveCallsInFlight = true
  #stopSettling: () => void = () => undefined

  constructor(components: RemovedSourcesComponents) {
    this.#components = components
    this.#queue = new ReconcileQueue(components)
  }

  /** Soon. */
  check(): void {
    this.#wake.resolve()
  }

  /** Those that the configuration has again, or may have: @returns once nothing is done for them any more */
  async halt(): Promise<void> {
    await this.#listed
    const back = [...this.#running.values()].filter(({ removed }) => !this.#components.hasLeft(removed.options))
    for (const { removed } of back) removed.ended.abort(new Error('the configuration has changed'))
    await Promise.all(back.map(({ done }) => done))
  }

  /** What a source of the term has sent that has just ended may not have landed yet. */
  settle(): void {
    this.#stopSettling()
    this.#mayHaveCallsInFlight = true
    this.#stopSettling = this.#components.clock.after(settleMs, () => {
      this.#mayHaveCallsInFlight = false
      this.check()
    })
  }

  /** Until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, retryBackoff)
    this.settle()
    for (let isDone = true; !signal.aborted; ) {
      if (!isDone) void backoff.wait(signal).then(this.#wake.resolve)
      await abortable(this.#wake.promise, signal).catch(() => undefined)
      if (signal.aborted) break
      this.#wake = Promise.withResolvers()
      const listed = this.#list(signal)
      this.#listed = listed.then(() => undefined)
      isDone = await listed
      if (isDone) backoff.reset()
    }
    this.#stopSettling()
    await Promise.all([...this.#running.values()].map(({ done }) => done))
  }

  /** Each that has left has a round. @returns false: it is to be tried again */
  async #list(signal: AbortSignal): Promise<boolean> {
    const { stored, hasLeft, log } = this.#components
    try {
      for (const options of await stored(signal)) {
        if (signal.aborted) return true
        if (hasLeft(options)) this.#queue.add(this.#begin(options, signal))
      }
      return true
    } catch (error) {
      if (signal.aborted) return true
      log.error({ error }, 'What sources have left behind cannot be checked')
      return false
    }
  }

  #begin(options: SourceOptions, signal: AbortSignal): Removed {
    const { id } = options
    const known = this.#running.get(id)
    if (known?.removed.ended.signal.aborted) void known.done.then(() => this.check()) // it ends, and begins anew
    if (known) return known.removed
    const removed = { options, superseded: new AbortController(), ended: linkedController(signal) }
    const unsubscribe = this.#components.people.onDirectives(id, () => {
      removed.superseded.abort(new KasError({ code: 'CANCELLED', detail: 'somebody asks for something else' }))
      this.#queue.add(removed)
    })
    const round = (running: AbortSignal) => this.#tryRound(removed, running)
    const done = this.#queue.run(removed, round, removed.ended.signal).finally(() => {
      unsubscribe()
      removed.ended.dispose()
      this.#running.delete(id)
    })
    this.#running.set(id, { removed, done })
    return removed
  }

  async #tryRound(removed: Removed, signal: AbortSignal): Promise<Next> {
    const { options } = removed
    try {
      return await this.#round(removed, signal)
    } catch (error) {
      signal.throwIfAborted()
      const { log, report } = this.#components
      log.error({ source: options.id, error }, 'What a source has left behind cannot be checked')
      report(options, { kind: 'removalFailed', text: errorText(error) })
      return 'backoff'
    }
  }

  async #round(removed: Removed, signal: AbortSignal): Promise<Next> {
    const { people, report, onRemoved, reconcile, forget, log } = this.#components
    const { options } = removed
    const { id, onRemoval } = options
    removed.superseded = new AbortController()
    report(options, { kind: 'removalBegun' })
    const { approved, isSuspended, isForgotten } = await people.directives(id, signal)
    const end = () => {
      onRemoved(options)
      removed.ended.abort(new Error('nothing of it is left'))
    }
    if (isForgotten) {
      await forget(options, signal)
      end()
      log.info({ source: id }, 'A source is forgotten: what it has made stays')
      return 'idle'
    }
    if (isSuspended) {
      report(options, { kind: 'removalFailed', text: 'somebody has asked for a pause' })
      return 'idle'
    }
    const input = {
      approved,
      useApproval: (using: AbortSignal) => people.useApproval(id, approved, using),
      mayHaveCallsInFlight: this.#mayHaveCallsInFlight,
      superseded: removed.superseded.signal,
    }
    const result = await reconcile(input, options, signal)
    const { pruned, entries } = result
    if (entries.size > 0) report(options, { kind: 'removal', done: result })
    else end()
    const fields = { source: id, on_removal: onRemoval, pruned: pruned.length, left: entries.size }
    if (pruned.length > 0) log.info(fields, 'What a source has left behind was deleted')
    return needsNoRetry(result) ? 'idle' : 'backoff'
  }
}
