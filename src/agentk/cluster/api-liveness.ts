import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { Listeners } from '../../lib/listeners.ts'
import { pause } from '../../lib/pause.ts'
import { type ApiClient, serverVersionPath } from './api-client.ts'

/** Pause between an answer and the next question, while there is a listener. ms */
const restMs = 15_000
/** Time without an answer after which the server counts as dead. ms */
const deadMs = 15_000
/** Pause after a question that failed. ms */
const retryMs = 1000

export interface ApiLivenessComponents {
  readonly client: Pick<ApiClient, 'json'>
  readonly clock: Clock
}

/** Notices an API server that answers nothing. A frozen server ends no watch, and sends nothing on any. */
export class ApiLiveness {
  readonly #components: ApiLivenessComponents
  readonly #listeners = new Listeners()
  #stop: (() => void) | undefined

  constructor(components: ApiLivenessComponents) {
    this.#components = components
  }

  /** Calls `listener` each time that the server has not answered, until the returned function is called. */
  onUnanswered(listener: () => void): () => void {
    const remove = this.#listeners.add(listener)
    this.#stop ??= this.#start()
    return () => {
      remove()
      if (this.#listeners.size > 0) return
      this.#stop?.()
      this.#stop = undefined
    }
  }

  #start(): () => void {
    const stopping = new AbortController()
    void this.#run(stopping.signal)
    return () => stopping.abort()
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#components
    while (!signal.aborted) {
      await pause(restMs, clock, signal)
      if (signal.aborted || (await this.#isAnswered(signal)) || signal.aborted) continue
      this.#listeners.notify()
    }
  }

  /** True on any answer, also on a refusal. */
  async #isAnswered(signal: AbortSignal): Promise<boolean> {
    const { client, clock } = this.#components
    return withDeadline({ ms: deadMs, clock, signals: [signal] }, async (timely) => {
      while (!timely.aborted) {
        const answer = await client.json('GET', serverVersionPath, undefined, timely).catch(() => undefined)
        if (answer) return true
        await pause(retryMs, clock, timely)
      }
      return false
    })
  }
}
