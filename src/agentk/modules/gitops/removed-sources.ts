import { Backoff } from '../../../lib/backoff.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { isSettled, type RemovalInput, type RoundDone } from './reconcile.ts'
import type { SourceOptions } from './source-options.ts'
import { type SourceWorkComponents, settleMs } from './source-work.ts'

/** What could not be decided upon is tried again. ms */
const backoffOptions = { firstMs: 5000, maxMs: 300_000, factor: 2, jitter: 0.2, resetMs: 3600_000 }

export interface RemovedSourcesComponents extends Pick<SourceWorkComponents, 'people'> {
  /** of which this agent keeps an inventory. @throws: it is tried again */
  readonly stored: (signal: AbortSignal) => Promise<readonly SourceOptions[]>
  /** a configuration that was read whole has it no longer */
  readonly isGone: (options: SourceOptions) => boolean
  /** and nothing of it is left */
  readonly onGone: (options: SourceOptions) => void
  /** decides upon all that it has made. @throws: it is tried again */
  readonly reconcile: (input: RemovalInput, options: SourceOptions, signal: AbortSignal) => Promise<RoundDone>
  /** lets go of all that it has made. @throws: it is tried again */
  readonly forget: (options: SourceOptions, signal: AbortSignal) => Promise<void>
  readonly onDone: (options: SourceOptions, done: RoundDone) => void
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
  check(): void {
    this.#wake.resolve()
  }

  /** The configuration has changed: one of them may come back. @returns once nothing is done any more; then `check` */
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
      this.check()
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
      log.error({ error }, 'What sources have left behind cannot be checked')
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
      this.#components.log.error({ source, error }, 'What a source has left behind cannot be checked')
      return false
    }
  }

  async #remove(options: SourceOptions, signal: AbortSignal): Promise<boolean> {
    const { people, onDone, onGone, reconcile, forget, log } = this.#components
    const { id, onRemoval } = options
    const superseded = new AbortController()
    const unsubscribe = people.onDirectives(id, () => {
      superseded.abort(new KasError({ code: 'CANCELLED', detail: 'somebody asks for something else' }))
      this.check()
    })
    this.#unsubscribes.push(unsubscribe)
    const { approved, isSuspended, isForgotten } = await people.directives(id, signal)
    if (isForgotten) {
      await forget(options, signal)
      onGone(options)
      log.info({ source: id }, 'A source is forgotten: what it has made stays')
      return true
    }
    if (isSuspended) return true
    const input = {
      approved,
      useApproval: (using: AbortSignal) => people.useApproval(id, approved, using),
      isSettling: this.#isSettling,
      superseded: superseded.signal,
    }
    const result = await reconcile(input, options, signal)
    const { pruned, entries } = result
    if (entries.size > 0) onDone(options, result)
    else onGone(options)
    const fields = { source: id, on_removal: onRemoval, pruned: pruned.length, left: entries.size }
    if (pruned.length > 0) log.info(fields, 'What a source has left behind was deleted')
    return isSettled(result)
  }

  #unsubscribe(): void {
    for (const unsubscribe of this.#unsubscribes.splice(0)) unsubscribe()
  }
}
