import { KasError } from '../../../../lib/errors.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { FollowedDrift } from '../drift/follow-drift.ts'
import type { RemovalInput } from '../reconcile.ts'
import type { Directives, DirectivesReader } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { Next, ReconcileQueue } from './reconcile-queue.ts'

/**
 * Time after which calls of the previous leader have arrived, or never will: it may have been frozen or cut off. It is
 * above the time limit of a call, and above the time for which TCP keeps a closed connection. ms
 */
export const settleMs = 120_000

/** Source that is followed. */
export interface FollowedSource {
  readonly options: SourceOptions
  readonly drift: FollowedDrift
  /** nothing of it is applied */
  readonly isPaused: boolean
}

/** Purpose of a run: `follow` applies commits, `remove` decides on the objects of a source that was removed. */
export interface SourceMode {
  readonly kind: 'follow' | 'remove'
  /** id of the source's status */
  readonly id: string
  /** absent: it is not followed */
  readonly drift?: FollowedDrift | undefined
  /** absent: it is not followed, or its project is not known yet */
  readonly followed?: FollowedSource | undefined
  /** Works beside the rounds until the signal aborts. Rejects: the source ends */
  beside(runner: SourceRunner, signal: AbortSignal): Promise<void>
  /** Runs one round. Rejects: the source ends */
  round(runner: SourceRunner, signal: AbortSignal): Promise<Next>
}

export interface SourceRunnerComponents {
  readonly queue: Pick<ReconcileQueue<SourceRunner>, 'run' | 'add'>
  readonly people: DirectivesReader
}

/** Current directives for a source, and what its round needs for them. */
export interface Asked extends Directives, Pick<RemovalInput, 'useApproval' | 'superseded'> {
  /** records that `resync` was done */
  readonly onResynced: () => void
}

/** Runs one source while this pod leads: one round after another, each with the current directives. */
export class SourceRunner {
  readonly mode: SourceMode
  readonly #components: SourceRunnerComponents
  readonly #stopped = new AbortController()
  /** for the current round */
  #superseded = new AbortController()
  #unsubscribe: () => void = () => undefined

  constructor(components: SourceRunnerComponents, mode: SourceMode) {
    this.#components = components
    this.mode = mode
  }

  get isStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  /** Aborts when the current round must not begin anything more. */
  get superseded(): AbortSignal {
    return this.#superseded.signal
  }

  /** Runs until the signal aborts, or `stop`. Rejects as the mode does. */
  async run(signal: AbortSignal): Promise<void> {
    const ended = linkedController(signal, this.#stopped.signal)
    const both = [
      this.#components.queue.run(this, (running) => this.#round(running), ended.signal),
      this.mode.beside(this, ended.signal),
    ] as const
    try {
      await Promise.all(both)
    } finally {
      this.#unsubscribe()
      ended.abort(new KasError({ code: 'CANCELLED', detail: 'the source is not run any more' }))
      ended.dispose()
      await Promise.allSettled(both)
    }
  }

  stop(reason: unknown): void {
    this.#stopped.abort(reason)
  }

  /** Requests one more round. @param isNew - as in the queue */
  add({ isNew = false } = {}): void {
    this.#components.queue.add(this, { isNew })
  }

  /** Supersedes the current round, and requests the next one. */
  again(detail: string, { isNew = true } = {}): void {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail }))
    this.add({ isNew })
  }

  /** Follows the directives for this id: a change starts a round at once. */
  listen(id: string): void {
    const isNew = this.mode.kind === 'follow'
    this.#unsubscribe()
    this.#unsubscribe = this.#components.people.onDirectives(id, () =>
      this.again('somebody asks for something else', { isNew }),
    )
  }

  /** Returns the current directives. @throws: the round is tried again */
  async asked(id: string, signal: AbortSignal): Promise<Asked> {
    const { people } = this.#components
    const directives = await people.directives(id, signal)
    const useApproval = (using: AbortSignal) => people.useApproval(id, directives.approved, using)
    const onResynced = () => people.resynced(id, directives.resync)
    return { ...directives, useApproval, onResynced, superseded: this.superseded }
  }

  async #round(signal: AbortSignal): Promise<Next> {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail: 'another round has begun' }))
    this.#superseded = new AbortController()
    return await this.mode.round(this, signal)
  }
}
