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
  /** a configuration that was read whole has it no longer */
  readonly hasLeft: (id: string) => boolean
  readonly clock: Clock
  readonly random: () => number
}

/** The sources that have left the configuration. Each is run by itself: one that waits delays no other. */
export class RemovedSources {
  readonly #components: RemovedSourcesComponents
  /** by id */
  readonly #running = new Map<string, { readonly runner: SourceRunner; readonly done: Promise<void> }>()
  #wake = Promise.withResolvers<void>()
  #listed = Promise.resolve()
  #mayHaveCallsInFlight = true
  #stopSettling: () => void = () => undefined

  constructor(components: RemovedSourcesComponents) {
    this.#components = components
  }

  /** What its source, or the pod that led before, has sent may not have landed yet. */
  get mayHaveCallsInFlight(): boolean {
    return this.#mayHaveCallsInFlight
  }

  /** Soon. */
  check(): void {
    this.#wake.resolve()
  }

  /** Those that the configuration has again, or may have: @returns once nothing is done for them any more */
  async halt(): Promise<void> {
    await this.#listed
    const back = [...this.#running.values()].filter(({ runner }) => !this.#components.hasLeft(runner.mode.id))
    for (const { runner } of back) runner.stop(new Error('the configuration has changed'))
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
    const { rounds, hasLeft, log } = this.#components
    const onUnreadable = (name: string, error: unknown) =>
      log.error({ name, error }, 'What a source has left behind cannot be read')
    try {
      for (const options of await rounds.stored(onUnreadable, signal)) {
        if (signal.aborted) return true
        if (hasLeft(options.id)) this.#begin(options, signal).add()
      }
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
    if (known?.runner.isStopped) void known.done.then(() => this.check()) // it ends, and begins anew
    if (known) return known.runner
    const runner = new SourceRunner(this.#components, new RemoveMode({ ...this.#components, settling: this }, options))
    const done = runner.run(signal).finally(() => this.#running.delete(id))
    this.#running.set(id, { runner, done })
    return runner
  }
}
