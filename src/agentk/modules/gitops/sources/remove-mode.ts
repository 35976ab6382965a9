import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { needsNoRetry } from '../outcome.ts'
import type { RemovalInput } from '../reconcile.ts'
import type { SourceOptions } from '../source-options.ts'
import type { StatusSink } from '../state/status-sink.ts'
import type { Next } from './reconcile-queue.ts'
import type { SourceRounds } from './source-rounds.ts'
import type { SourceMode, SourceRunner } from './source-runner.ts'

export interface RemoveModeComponents {
  readonly rounds: Pick<SourceRounds, 'remove' | 'forget'>
  readonly status: Pick<StatusSink, 'report' | 'remove'>
  /** calls in flight of all removed sources */
  readonly settling: Pick<RemovalInput, 'mayHaveCallsInFlight'>
  readonly log: Logger
}

/** Mode of a source that has left the configuration: its objects stay, or are deleted after an approval. */
export class RemoveMode implements SourceMode {
  readonly kind = 'remove'
  readonly options: SourceOptions
  readonly #components: RemoveModeComponents

  constructor(components: RemoveModeComponents, options: SourceOptions) {
    this.#components = components
    this.options = options
  }

  get id(): string {
    return this.options.id
  }

  async beside(runner: SourceRunner): Promise<void> {
    runner.listen(this.id)
  }

  async round(runner: SourceRunner, signal: AbortSignal): Promise<Next> {
    const { log, status } = this.#components
    try {
      return await this.#round(runner, signal)
    } catch (error) {
      signal.throwIfAborted()
      log.error({ source: this.id, error }, 'What a source has left behind cannot be checked')
      status.report(this.options, { kind: 'removalFailed', text: errorText(error) })
      return 'backoff'
    }
  }

  async #round(runner: SourceRunner, signal: AbortSignal): Promise<Next> {
    const { rounds, status, settling, log } = this.#components
    const { id, onRemoval } = this.options
    status.report(this.options, { kind: 'removalBegun' })
    const { approved, isSuspended, isForgotten, useApproval, superseded } = await runner.asked(id, signal)
    if (isForgotten) {
      await rounds.forget(this.options, signal)
      this.#end(runner)
      log.info({ source: id }, 'A source is forgotten: what it has made stays')
      return 'idle'
    }
    if (isSuspended) {
      status.report(this.options, { kind: 'removalFailed', text: 'somebody has asked for a pause' })
      return 'idle'
    }
    const { mayHaveCallsInFlight } = settling
    const input = { approved, useApproval, mayHaveCallsInFlight, superseded }
    const done = await rounds.remove(input, this.options, signal)
    const { pruned, entries } = done
    if (entries.size > 0) status.report(this.options, { kind: 'removal', done })
    else this.#end(runner)
    const fields = { source: id, on_removal: onRemoval, pruned: pruned.length, left: entries.size }
    if (pruned.length > 0) log.info(fields, 'What a source has left behind was deleted')
    return needsNoRetry(done) ? 'idle' : 'backoff'
  }

  #end(runner: SourceRunner): void {
    this.#components.status.remove(this.id)
    runner.stop(new Error('nothing of it is left'))
  }
}
