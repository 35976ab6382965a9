import { KasError } from '../../../lib/errors.ts'
import { abortable, delay } from '../../../lib/signals.ts'
import { detached } from '../../../lib/tracing/tracer.ts'
import type { Agent } from '../../agent.ts'

export interface DirectoryPollsOptions {
  /** pause between attempts, doubled from the first to the last. ms */
  readonly retryMs: readonly [first: number, last: number]
  /** tokens that the directory is asked about at once */
  readonly maxTokens?: number
  /** streams that wait for an answer */
  readonly maxStreams?: number
  /** streams that wait with one token: more than an agent may have open */
  readonly maxStreamsPerToken?: number
}

/** Streams that wait at a replica while the directory is unavailable. */
export const maxWaitingStreams = 20_000

const defaults = { maxTokens: 10_000, maxStreams: maxWaitingStreams, maxStreamsPerToken: 2000 }

interface Poll {
  readonly controller: AbortController
  readonly answer: Promise<Agent>
  streams: number
}

/** Asks the directory again while it is unavailable: one poll per token, for all streams that wait for its answer. */
export class DirectoryPolls {
  readonly #options: DirectoryPollsOptions & typeof defaults
  readonly #polls = new Map<string, Poll>()
  #streams = 0

  constructor(options: DirectoryPollsOptions) {
    this.#options = { ...defaults, ...options }
  }

  /**
   * @param token - hash of the token
   * @param ask - its signal aborts when no stream waits any more
   * @throws the directory's error for the token; DIRECTORY_UNAVAILABLE at once if too many wait; the signal's reason
   */
  async wait(token: string, ask: (signal: AbortSignal) => Promise<Agent>, signal: AbortSignal): Promise<Agent> {
    signal.throwIfAborted()
    const poll = this.#enter(token, ask)
    try {
      return await abortable(poll.answer, signal)
    } finally {
      this.#leave(token, poll)
    }
  }

  #enter(token: string, ask: (signal: AbortSignal) => Promise<Agent>): Poll {
    const known = this.#polls.get(token)
    const { maxTokens, maxStreams, maxStreamsPerToken } = this.#options
    const isFull = known ? known.streams >= maxStreamsPerToken : this.#polls.size >= maxTokens
    if (isFull || this.#streams >= maxStreams) {
      throw new KasError({ code: 'DIRECTORY_UNAVAILABLE', reason: 'too many streams wait for it' })
    }
    const poll = known ?? this.#begin(token, ask)
    poll.streams += 1
    this.#streams += 1
    return poll
  }

  #leave(token: string, poll: Poll): void {
    this.#streams -= 1
    poll.streams -= 1
    if (poll.streams > 0) return
    if (this.#polls.get(token) === poll) this.#polls.delete(token)
    poll.controller.abort(new KasError({ code: 'CANCELLED' }))
  }

  #begin(token: string, ask: (signal: AbortSignal) => Promise<Agent>): Poll {
    const controller = new AbortController()
    const poll = { controller, answer: detached(() => this.#run(ask, controller.signal)), streams: 0 }
    this.#polls.set(token, poll)
    const end = () => {
      if (this.#polls.get(token) === poll) this.#polls.delete(token)
    }
    poll.answer.then(end, end)
    return poll
  }

  async #run(ask: (signal: AbortSignal) => Promise<Agent>, signal: AbortSignal): Promise<Agent> {
    const [firstMs, lastMs] = this.#options.retryMs
    for (let waitMs = firstMs; ; waitMs = Math.min(lastMs, waitMs * 2)) {
      await delay(waitMs, signal)
      try {
        return await ask(signal)
      } catch (error) {
        signal.throwIfAborted()
        if (!isAway(error)) throw error
      }
    }
  }
}

/** True if the directory could not be asked, so that a later attempt may succeed. */
export function isAway(error: unknown): boolean {
  return error instanceof KasError && error.code === 'DIRECTORY_UNAVAILABLE'
}
