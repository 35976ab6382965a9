import { Backoff } from '../../../../lib/backoff.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { SourceOptions } from '../source-options.ts'
import { retryBackoff } from './reconcile-queue.ts'
import { RemoveMode, type RemoveModeComponents } from './remove-mode.ts'
import type { SourceRounds } from './source-rounds.ts'
import { SourceRunner, type SourceRunnerComponents, settleMs } from './source-runner.ts'

export interface RemovedSourcesComponents extends SourceRunnerComponents, Omit<RemoveModeComponents, 'settling'> {
  readonly rounds: Pick<SourceRounds, 'stored' | 'remove' | 'forget'>
  /** a complete configuration no longer has the source */
  readonly hasLeft: (id: string) => boolean
  readonly clock: Clock
  readonly random: () => number
}

/** Runs the sources that have left the configuration, each by itself: one that waits does not delay others. */
export class RemovedSources {
  readonly #components: RemovedSourcesComponents
  /** by id */
  readonly #running = new Map<string, { readonly runner: SourceRunner; readonly done: Promise<void> }>()
  #wake = Promise.withResolvers<void>()
  #listed = Promise.resolve()
  /** sources with an inventory, as they were listed last */
  #stored: readonly SourceOptions[] = []
  #signal: AbortSignal | undefined
  #mayHaveCallsInFlight = true
  #stopSettling: () => void = () => undefined

  constructor(components: RemovedSourcesComponents) {
    this.#components = components
  }

  /** Calls of an ended source, or of the previous leader, may still arrive. */
  get mayHaveCallsInFlight(): boolean {
    return this.#mayHaveCallsInFlight
  }

  /** Requests a check of the inventories. */
  check(): void {
    this.#wake.resolve()
  }

  /** Decides again on the inventories that were listed last: a source of the configuration is known by its id now. */
  decide(): void {
    const { hasLeft } = this.#components
    const signal = this.#signal
    if (!signal || signal.aborted) return
    for (const options of this.#stored) if (hasLeft(options.id)) this.#begin(options, signal).add()
  }

  /** Stops sources that the configuration has again, or may have. Resolves once they have ended. */
  async halt(): Promise<void> {
    await this.#listed
    const back = [...this.#running.values()].filter(({ runner }) => !this.#components.hasLeft(runner.mode.id))
    for (const { runner } of back) runner.stop(new Error('the configuration has changed'))
    await Promise.all(back.map(({ done }) => done))
  }

  /** Starts the waiting time again: calls of a source that has just ended may still arrive. */
  settle(): void {
    this.#stopSettling()
    this.#mayHaveCallsInFlight = true
    this.#stopSettling = this.#components.clock.after(settleMs, () => {
      this.#mayHaveCallsInFlight = false
      this.check()
    })
  }

  /** Runs until the signal aborts. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#components, retryBackoff)
    this.#signal = signal
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

  /** Requests a round of each source that has left. @returns false: the list is to be tried again */
  async #list(signal: AbortSignal): Promise<boolean> {
    const { rounds, log } = this.#components
    const onUnreadable = (name: string, error: unknown) =>
      log.error({ name, error }, 'What a source has left behind cannot be read')
    try {
      this.#stored = await rounds.stored(onUnreadable, signal)
      this.decide()
      return true
    } catch (error) {
      if (signal.aborted) return true
      log.error({ error }, 'What sources have left behind cannot be checked')
      return false
    }
  }

  #begin(options: SourceOptions, signal: AbortSignal): SourceRunner {
    const { id } = options
    const known = this.#running.get(id)
    if (known?.runner.isStopped) void known.done.then(() => this.check()) // it ends, and starts again
    if (known) return known.runner
    const runner = new SourceRunner(this.#components, new RemoveMode({ ...this.#components, settling: this }, options))
    const done = runner.run(signal).finally(() => this.#running.delete(id))
    this.#running.set(id, { runner, done })
    return runner
  }
}
