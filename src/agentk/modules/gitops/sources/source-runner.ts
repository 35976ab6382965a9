import { KasError } from '../../../../lib/errors.ts'
import { linkedController } from '../../../../lib/signals.ts'
import type { RemovalInput } from '../reconcile.ts'
import type { Directives, DirectivesReader } from '../round.ts'
import type { Next, ReconcileQueue } from './reconcile-queue.ts'

/**
 * The pod that led before may have been frozen, or cut off, with calls on their way: these have landed by then, or never
 * will. Above the time limit of a call, and the patience of TCP for a connection that is closed. ms
 */
export const settleMs = 120_000

/** What a source is run for: `follow` brings its commits, `remove` decides upon what it has left behind. */
export interface SourceMode {
  readonly kind: 'follow' | 'remove'
  /** by which the status of the source is known */
  readonly id: string
  /** Begins, and goes on beside the rounds until the signal aborts. Rejects: the source ends */
  beside(runner: SourceRunner, signal: AbortSignal): Promise<void>
  /** One round. Rejects: the source ends */
  round(runner: SourceRunner, signal: AbortSignal): Promise<Next>
}

export interface SourceRunnerComponents {
  readonly queue: Pick<ReconcileQueue<SourceRunner>, 'run' | 'add'>
  readonly people: DirectivesReader
}

/** What people ask of a source now, and what its round needs for that. */
export type Asked = Directives & Pick<RemovalInput, 'useApproval' | 'superseded'>

/** Runs one source while this pod leads: its rounds, one after another, each as people ask of it by then. */
export class SourceRunner {
  readonly mode: SourceMode
  readonly #components: SourceRunnerComponents
  readonly #stopped = new AbortController()
  /** of the round that runs */
  #superseded = new AbortController()
  #unsubscribe: () => void = () => undefined

  constructor(components: SourceRunnerComponents, mode: SourceMode) {
    this.#components = components
    this.mode = mode
  }

  get isStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  /** Aborts once a round is not to begin anything more. */
  get superseded(): AbortSignal {
    return this.#superseded.signal
  }

  /** Until the signal aborts, or `stop`. Rejects as the mode does. */
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

  /** One more round, soon. @param isNew - as the queue has it */
  add({ isNew = false } = {}): void {
    this.#components.queue.add(this, { isNew })
  }

  /** A round that runs begins nothing more, and the next one follows. */
  again(detail: string, { isNew = true } = {}): void {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail }))
    this.add({ isNew })
  }

  /** It goes by this id from now on: what people ask of that is done at once. */
  listen(id: string): void {
    const isNew = this.mode.kind === 'follow'
    this.#unsubscribe()
    this.#unsubscribe = this.#components.people.onDirectives(id, () =>
      this.again('somebody asks for something else', { isNew }),
    )
  }

  /** @throws: it is tried again */
  async asked(id: string, signal: AbortSignal): Promise<Asked> {
    const { people } = this.#components
    const directives = await people.directives(id, signal)
    const useApproval = (using: AbortSignal) => people.useApproval(id, directives.approved, using)
    return { ...directives, useApproval, superseded: this.superseded }
  }

  async #round(signal: AbortSignal): Promise<Next> {
    this.#superseded.abort(new KasError({ code: 'CANCELLED', detail: 'another round has begun' }))
    this.#superseded = new AbortController()
    return await this.mode.round(this, signal)
  }
}
