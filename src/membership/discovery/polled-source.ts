import { Deadline } from '../../lib/deadline.ts'
import { pause } from '../../lib/pause.ts'
import { abortable } from '../../lib/signals.ts'
import { jittered, retryPauseMs } from './retry.ts'
import { RunningSource, type SourceComponents } from './running-source.ts'

export interface PollOptions {
  /** between two rounds, up to a fifth less or more */
  readonly intervalMs: number
  /** bound of one round */
  readonly timeoutMs: number
  /** pause after a failure, doubling up to `intervalMs` */
  readonly firstRetryMs: number
}

export const pollDefaults: PollOptions = { intervalMs: 10_000, timeoutMs: 5_000, firstRetryMs: 500 }

/** Answer of one part of a source (a host, a family of addresses). */
export interface PartAnswer {
  readonly part: string
  /** as `10.0.0.7:8156`; absent: the part failed */
  readonly addresses?: readonly string[]
  /** reason of the failure */
  readonly error?: string
}

/**
 * A source that is polled. Its parts may fail one by one. A failed part keeps its last addresses. The whole source
 * fails if parts fail and the others find nothing.
 */
export abstract class PolledSource extends RunningSource {
  readonly #components: SourceComponents
  readonly #options: PollOptions
  readonly #found = new Map<string, readonly string[]>()

  constructor(components: SourceComponents, options: PollOptions) {
    super(components)
    this.#components = components
    this.#options = options
  }

  /** Returns one answer for each part, in any order. A rejection is a failure of all parts. */
  protected abstract ask(signal: AbortSignal): Promise<readonly PartAnswer[]>

  protected async run(asked: () => void, signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#components
    const { intervalMs, firstRetryMs } = this.#options
    let failures = 0
    while (!signal.aborted) {
      await this.#round(signal)
      asked()
      failures = this.known.current().error === undefined ? 0 : failures + 1
      const retry = { firstRetryMs, maxRetryMs: intervalMs }
      await pause(failures > 0 ? retryPauseMs(failures, retry, random) : jittered(intervalMs, random), clock, signal)
    }
  }

  async #round(stop: AbortSignal): Promise<void> {
    const { timeoutMs } = this.#options
    const reason = () => new Error(`no answer within ${timeoutMs} ms`)
    const round = new Deadline({ ms: timeoutMs, clock: this.#components.clock, signals: [stop], reason })
    try {
      this.#take(await abortable(this.ask(round.signal), round.signal))
    } catch (error) {
      if (!stop.aborted) this.known.failed((error as Error).message)
    } finally {
      round.abort(reason()) // ends the questions that still run
    }
  }

  #take(answers: readonly PartAnswer[]): void {
    const parts = new Set(answers.map(({ part }) => part))
    for (const part of this.#found.keys()) if (!parts.has(part)) this.#found.delete(part)
    const failed = answers.filter(({ addresses }) => addresses === undefined)
    const stale = failed.some(({ part }) => (this.#found.get(part)?.length ?? 0) > 0)
    for (const { part, addresses } of answers) if (addresses) this.#found.set(part, addresses)
    const error = failed.map(({ part, error }) => `${part}: ${error}`).join('; ')
    const someFound = answers.some(({ addresses }) => (addresses?.length ?? 0) > 0)
    if (failed.length > 0 && !someFound) this.known.failed(error)
    else this.known.answered([...this.#found.values()].flat(), failed.length > 0 ? { error, stale } : undefined)
  }
}
