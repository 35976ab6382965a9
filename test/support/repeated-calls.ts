import { once } from 'node:events'
import * as http from 'node:http'
import * as https from 'node:https'
import { text } from 'node:stream/consumers'
import { delay } from '../../src/lib/signals.ts'
import type { TornDown } from './processes.ts'

export interface RepeatedCallsOptions {
  /** URL of a collection of ConfigMaps; any URL if there are only GETs */
  readonly url: string
  /** default: all */
  readonly kinds?: readonly Kind[]
  /** calls of each kind at once; default 1 */
  readonly inFlight?: number
  /** PEM */
  readonly ca?: string
  /** the Authorization header */
  readonly authorization: string
  /** pause between two calls of one kind; default 20 ms */
  readonly pauseMs?: number
  /**
   * Returns true if another side may have closed this connection: a GET on it is sent again, on a new one. Default:
   * true for a connection that was used before, as in each client of HTTP (RFC 9112 9.3.1)
   */
  readonly isExcused?: (lost: LostConnection) => boolean
  /** how often one GET is sent again, after which it has failed. Default: once */
  readonly maxRepeats?: number
}

export interface LostConnection {
  readonly isReused: boolean
  /** port of the client */
  readonly port: number | undefined
}

const kinds = ['GET, new connections', 'POST, new connections', 'GET, kept connections'] as const
type Kind = (typeof kinds)[number]
/**
 * Makes GETs, and POSTs that create ConfigMaps, each kind one after another. Any other answer than a success is a
 * failure.
 */
export class RepeatedCalls {
  /** one line each */
  readonly failures: string[] = []
  /** names of created ConfigMaps */
  readonly made: string[] = []
  /** answered calls */
  readonly counts: Record<Kind, number> = {
    'GET, new connections': 0,
    'POST, new connections': 0,
    'GET, kept connections': 0,
  }
  /** GETs that were sent again */
  repeats = 0
  /** POSTs whose connection was closed with an excuse: their result is unknown */
  unknown = 0
  slowestMs = 0
  readonly #options: RepeatedCallsOptions
  readonly #kept: http.Agent
  readonly #waiting = new Set<() => void>()
  #stopped = false
  #running: Promise<unknown> = Promise.resolve()

  constructor(options: RepeatedCallsOptions) {
    this.#options = options
    const keepAlive = { keepAlive: true }
    this.#kept = this.#isSecure ? new https.Agent(keepAlive) : new http.Agent(keepAlive)
  }

  start(t: TornDown): void {
    t.teardown(() => this.stop())
    const workers = Array.from({ length: this.#options.inFlight ?? 1 }, () => this.#kinds).flat()
    this.#running = Promise.all(workers.map((kind) => this.#repeat(kind)))
  }

  /** Resolves when so many more of each kind have ended. */
  async more(count: number): Promise<void> {
    const wanted = this.#kinds.map((kind) => [kind, this.counts[kind] + count] as const)
    const isMet = () => wanted.every(([kind, to]) => this.counts[kind] >= to)
    await new Promise<void>((resolve) => {
      const look = () => {
        if (!isMet()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }

  /** Waits for the running calls. */
  async stop(): Promise<this> {
    this.#stopped = true
    await this.#running
    this.#kept.destroy()
    return this
  }

  /** Summary of its calls, in one line. */
  get summary(): string {
    const counts = this.#kinds.map((kind) => `${this.counts[kind]} ${kind}`).join('; ')
    return (
      `${counts}; slowest ${Math.round(this.slowestMs)} ms; ${this.repeats} repeated by the client, ` +
      `${this.failures.length} failed`
    )
  }

  get #kinds(): readonly Kind[] {
    return this.#options.kinds ?? kinds
  }

  get #isSecure(): boolean {
    return this.#options.url.startsWith('https:')
  }

  async #repeat(kind: Kind): Promise<void> {
    while (!this.#stopped) {
      const began = performance.now()
      await this.#call(kind).catch((error: Error) => this.failures.push(`${kind}: ${error.message}`))
      this.slowestMs = Math.max(this.slowestMs, performance.now() - began)
      this.counts[kind]++
      for (const look of this.#waiting) look()
      await delay(this.#options.pauseMs ?? 20)
    }
  }

  async #call(kind: Kind): Promise<void> {
    const agent = kind === 'GET, kept connections' ? this.#kept : false
    if (kind !== 'POST, new connections') return await this.#get(agent)
    const name = `made-${this.counts[kind]}`
    const body = { metadata: { name, labels: { made: 'by-calls' } } }
    const { isExcused } = await this.#send({ method: 'POST', agent, body: JSON.stringify(body), wanted: 201 })
    if (isExcused) this.unknown++
    else this.made.push(name)
  }

  async #get(agent: http.Agent | false): Promise<void> {
    for (let repeats = 0; ; repeats++) {
      const { isExcused } = await this.#send({ method: 'GET', agent: repeats === 0 && agent, wanted: 200 })
      if (!isExcused) return
      if (repeats === (this.#options.maxRepeats ?? 1)) throw new Error('its connection was closed each time')
      this.repeats++
    }
  }

  /** @throws Error when the answer is wrong, or when there is none without an excuse */
  async #send({ method, agent, body, wanted }: Sent): Promise<{ isExcused: boolean }> {
    const { url, ca, authorization, isExcused = ({ isReused }) => isReused } = this.#options
    const type = body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length }
    const request = this.#isSecure ? https.request : http.request
    const sent = request(url, { method, agent, ...(ca && { ca }), headers: { authorization, ...type } })
    let port: number | undefined
    sent.once('socket', (socket) => {
      port = socket.localPort
      if (socket.connecting) socket.once('connect', () => (port = socket.localPort))
    })
    const answered = once(sent, 'response') as Promise<[http.IncomingMessage]>
    sent.end(body)
    try {
      const [answer] = await answered
      const said = await text(answer)
      if (answer.statusCode === wanted) return { isExcused: false }
      throw new UnwantedAnswer(`${answer.statusCode} ${said}`)
    } catch (error) {
      if (!(error instanceof UnwantedAnswer) && isExcused({ isReused: sent.reusedSocket, port }))
        return { isExcused: true }
      throw error
    }
  }
}

interface Sent {
  readonly method: string
  readonly agent: http.Agent | false
  readonly body?: string
  readonly wanted: number
}

class UnwantedAnswer extends Error {}
