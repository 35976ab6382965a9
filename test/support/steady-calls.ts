import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { delay } from '../../src/lib/signals.ts'

export interface SteadyCallsOptions {
  url: string
  /** PEM */
  ca: string
  token: string
  /** name in its certificate, if that is not the URL's host */
  servername?: string
  /** calls at once; default 4 */
  inFlight?: number
  /** pause between two of these calls; default 5 ms */
  pauseMs?: number
}

export interface CallResult {
  /** time since the calls began */
  startedMs: number
  tookMs: number
  /** 0: no answer */
  status: number
  headers: IncomingMessage['headers']
  /** text of the answer or of the failure */
  text: string
}

/** limit of repeats, as in client-go */
const maxRepeats = 10

/**
 * Makes GETs of one URL, some in flight at any time, on kept connections, from `start` to `stop`. It repeats after an
 * API server's answer with `Retry-After`, as client-go does, since servers send it while they stop. An error of kas
 * itself is a failure.
 */
export class SteadyCalls {
  readonly results: CallResult[] = []
  readonly #options: SteadyCallsOptions
  readonly #agent: Agent
  readonly #waiting: { count: number; resolve: () => void }[] = []
  #workers: Promise<void>[] = []
  #pauseMs: number
  #began = 0
  #stopped = false

  constructor(options: SteadyCallsOptions) {
    this.#options = options
    const { ca, servername, pauseMs = 5 } = options
    this.#pauseMs = pauseMs
    this.#agent = new Agent({ keepAlive: true, ca, ...(servername && { servername }) })
  }

  get failed(): CallResult[] {
    return this.results.filter(({ status }) => status !== 200)
  }

  /** milliseconds since the start */
  get now(): number {
    return performance.now() - this.#began
  }

  start(): void {
    this.#began = performance.now()
    this.#workers = Array.from({ length: this.#options.inFlight ?? 4 }, () => this.#work())
  }

  /** Sets a longer pause from now on, for tests that wait for long. */
  slowDown(pauseMs: number): void {
    this.#pauseMs = pauseMs
  }

  /** Resolves when `count` more calls have been answered. */
  more(count: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ count: this.results.length + count, resolve }))
  }

  /** Waits for the calls in flight. @returns all results */
  async stop(): Promise<CallResult[]> {
    this.#stopped = true
    await Promise.all(this.#workers)
    this.#agent.destroy()
    return this.results
  }

  async #work(): Promise<void> {
    while (!this.#stopped) {
      const startedMs = this.now
      const answer = await this.#repeat().catch((error: Error) => ({ status: 0, headers: {}, text: String(error) }))
      this.results.push({ startedMs, tookMs: this.now - startedMs, ...answer })
      for (const waiting of this.#waiting) if (this.results.length >= waiting.count) waiting.resolve()
      await delay(this.#pauseMs)
    }
  }

  async #repeat(): Promise<Pick<CallResult, 'status' | 'headers' | 'text'>> {
    for (let repeats = 0; ; repeats++) {
      const answer = await this.#call()
      const after = answer.headers['retry-after']
      if (after === undefined || answer.headers['kas-delivery'] || repeats === maxRepeats) return answer
      await delay(Number(after) * 1000)
    }
  }

  async #call(): Promise<Pick<CallResult, 'status' | 'headers' | 'text'>> {
    const { url, token } = this.#options
    const sent = request(url, { agent: this.#agent, headers: { authorization: `Bearer ${token}` } })
    const answered = once(sent, 'response')
    sent.end()
    const [answer] = (await answered) as [IncomingMessage]
    return { status: answer.statusCode ?? 0, headers: answer.headers, text: await text(answer) }
  }
}
