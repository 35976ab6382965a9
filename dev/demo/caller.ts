import { type Dispatcher, Pool } from 'undici'

export interface CallerOptions {
  /** name in the demo's output: a replica, or the balancer */
  readonly name: string
  /** port of 127.0.0.1 */
  readonly port: number
  /** PEM */
  readonly authority: string
  /** credential after `Bearer ` */
  readonly credential: string
}

export interface Request {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** body, sent as JSON */
  readonly body?: object
  /** headers beside the usual ones */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export interface Answer {
  /** 0: no answer, the connection failed */
  readonly status: number
  /** for a failure its reason */
  readonly body: string
  /** `Kas-Delivery` of kas' own errors: `maybe` if the request may have reached the cluster */
  readonly delivery: 'none' | 'maybe' | undefined
  /** its beginning came and its end did not, which the caller sees: only the caller can repeat the call then */
  readonly cut?: boolean
  /** time from the call to the last byte. ms */
  readonly tookMs: number
}

/** limit of an answer: kas waits up to 20 s for an agent, and a longer call is lost. ms */
const answerTimeoutMs = 30_000
const maxConnections = 64

/** Calls the cluster's API through one replica or the balancer, on kept connections, without repeats. */
export class Caller {
  readonly name: string
  readonly #pool: Pool
  readonly #credential: string

  constructor({ name, port, authority, credential }: CallerOptions) {
    this.name = name
    this.#credential = credential
    const timeouts = { headersTimeout: 0, bodyTimeout: 0 }
    const connect = { ca: authority }
    this.#pool = new Pool(`https://127.0.0.1:${port}`, { connections: maxConnections, connect, ...timeouts })
  }

  /** Returns the answer; never rejects. */
  async ask(path: string, request: Request = {}): Promise<Answer> {
    const began = performance.now()
    const limit = AbortSignal.timeout(answerTimeoutMs)
    let cut = false
    const signal = request.signal ? AbortSignal.any([request.signal, limit]) : limit
    try {
      const answer = await this.open(path, { ...request, signal })
      cut = true
      const body = await answer.body.text()
      const delivery = answer.headers['kas-delivery'] as Answer['delivery']
      return { status: answer.statusCode, body, delivery, tookMs: performance.now() - began }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      return {
        status: 0,
        body: `${cut ? 'cut: ' : ''}${code ?? message}`,
        delivery: undefined,
        cut,
        tookMs: performance.now() - began,
      }
    }
  }

  /** Resolves with the head of any answer; its body must be read or destroyed. */
  open(path: string, { method = 'GET', body, headers: more, signal }: Request = {}): Promise<Dispatcher.ResponseData> {
    const headers = {
      ...more,
      authorization: `Bearer ${this.#credential}`,
      ...(body && { 'content-type': 'application/json' }),
    }
    const options = { path, method, headers, ...(body && { body: JSON.stringify(body) }), ...(signal && { signal }) }
    return this.#pool.request(options)
  }

  /** Cuts all connections. */
  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}
