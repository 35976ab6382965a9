import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import type { RemovalInput } from './removal.ts'
import { isSettled, type RoundDone } from './round.ts'
import type { SourceOptions } from './source-options.ts'
import { type SourceWorkComponents, settleMs } from './source-work.ts'
import { SourceStatus } from './state/source-status.ts'

/** What could not be decided upon is looked at again. ms */
const backoffOptions = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }

export interface RemovedSourcesComponents
  extends Pick<SourceWorkComponents, 'wishes' | 'useApproval' | 'onWish' | 'onStatus'> {
  /** of which this agent keeps an inventory. @throws: it is tried again */
  readonly stored: (signal: AbortSignal) => Promise<readonly SourceOptions[]>
  /** a configuration that was read whole has it no longer */
  readonly isGone: (options: SourceOptions) => boolean
  /** and nothing of it is left */
  readonly onGone: (options: SourceOptions) => void
  /** decides upon all that it has made. @throws: it is tried again */
  readonly round: (input: RemovalInput, options: SourceOptions, signal: AbortSignal) => Promise<RoundDone>
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
}

/** Sources that have left the configuration: what they have made stays, and is told, or goes once that is approved. */
export class RemovedSources {
  readonly #components: RemovedSourcesComponents
  readonly #unsubscribes: (() => void)[] = []
  #wake = Promise.withResolvers<void>()
  /** of the pass that runs */
  #stop = linkedController()
  #passed = Promise.resolve()
  /** what its source, or the pod that led before, has sent may not have landed yet */
  #isSettling = true
  #stopSettling: () => void = () => undefined

  constructor(components: RemovedSourcesComponents) {
    this.#components = components
  }

  /** Soon. */
  look(): void {
    this.#wake.resolve()
  }

  /** The configuration has changed: one of them may come back. @returns once nothing is done any more; then `look` */
  async halt(): Promise<void> {
    this.#unsubscribe()
    this.#stop.abort(new Error('the configuration has changed'))
    this.#settle()
    await this.#passed
  }

  /** From now on: a source of the term may just have ended. */
  #settle(): void {
    this.#stopSettling()
    this.#isSettling = true
    this.#stopSettling = this.#components.clock.after(settleMs, () => {
      this.#isSettling = false
      this.look()
    })
  }

  /** Until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, backoffOptions)
    this.#settle()
    for (let isDone = true; !signal.aborted; ) {
      if (!isDone) void backoff.wait(signal).then(this.#wake.resolve)
      await abortable(this.#wake.promise, signal).catch(() => undefined)
      if (signal.aborted) break
      this.#wake = Promise.withResolvers()
      const ended = Promise.withResolvers<void>()
      this.#passed = ended.promise
      this.#stop = linkedController(signal)
      isDone = await this.#pass(this.#stop.signal)
      this.#stop.dispose()
      ended.resolve()
      if (isDone) backoff.reset()
    }
    this.#stopSettling()
  }

  /** @returns false: it is to be tried again */
  async #pass(signal: AbortSignal): Promise<boolean> {
    const { stored, isGone, log } = this.#components
    this.#unsubscribe()
    let isDone = true
    try {
      for (const options of await stored(signal)) {
        if (isGone(options) && !(await this.#tryRemove(options, signal))) isDone = false
      }
      return isDone
    } catch (error) {
      if (signal.aborted) return true
      log.error({ error }, 'What sources have left behind cannot be looked at')
      return false
    }
  }

  /** One that fails holds no other. */
  async #tryRemove(options: SourceOptions, signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#remove(options, signal)
    } catch (error) {
      signal.throwIfAborted()
      const { id: source } = options
      this.#components.log.error({ source, error }, 'What a source has left behind cannot be looked at')
      return false
    }
  }

  async #remove(options: SourceOptions, signal: AbortSignal): Promise<boolean> {
    const { wishes, useApproval, onWish, onStatus, onGone, round, log, clock } = this.#components
    const { id, onRemoval } = options
    const superseded = new AbortController()
    const unsubscribe = onWish(id, () => {
      superseded.abort(new KasError({ code: 'CANCELLED', detail: 'somebody wishes otherwise' }))
      this.look()
    })
    this.#unsubscribes.push(unsubscribe)
    const { approved, isPaused } = await wishes(options, signal)
    if (isPaused) return true
    const input = {
      approved,
      useApproval: (using: AbortSignal) => useApproval(options, approved, using),
      isSettling: this.#isSettling,
      superseded: superseded.signal,
    }
    const result = await round(input, options, signal)
    const { pruned, entries } = result
    if (entries.size > 0) {
      const status = new SourceStatus(options, clock.now())
      status.removed(result, clock.now())
      onStatus(status)
    } else onGone(options)
    const fields = { source: id, on_removal: onRemoval, pruned: pruned.length, left: entries.size }
    if (pruned.length > 0) log.info(fields, 'What a source has left behind was deleted')
    return isSettled(result)
  }

  #unsubscribe(): void {
    for (const unsubscribe of this.#unsubscribes.splice(0)) unsubscribe()
  }
}
