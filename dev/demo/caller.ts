import { type Dispatcher, Pool } from 'undici'

export interface CallerOptions {
  /** how the demo calls it: a replica, or the balancer */
  readonly name: string
  /** of 127.0.0.1 */
  readonly port: number
  /** PEM */
  readonly authority: string
  /** what stands after `Bearer ` */
  readonly credential: string
}

export interface Request {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** sent as JSON */
  readonly body?: object
  /** beside the usual ones */
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export interface Answer {
  /** 0: none came, the connection failed */
  readonly status: number
  /** of a failure: why */
  readonly body: string
  /** of kas' own errors: whether the request may have reached the cluster */
  readonly delivery: 'none' | 'maybe' | undefined
  /** its beginning came and its end did not, which the caller sees: only it can repeat the call then */
  readonly cut?: boolean
  /** from the call to the last byte. ms */
  readonly tookMs: number
}

/** kas waits up to 20 s for an agent; a call that takes longer than this has been forgotten. ms */
const answerTimeoutMs = 30_000
const maxConnections = 64

/** Calls the cluster's API through one way into kas, on kept connections, and repeats nothing. */
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

  /** Never rejects. */
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

  /** Cuts what runs. */
  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}
