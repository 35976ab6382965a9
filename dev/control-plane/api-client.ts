import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'

export interface ApiClientOptions {
  /** URL */
  server: string
  /** PEM */
  ca: string
  /** PEM; instead of a token */
  certificate?: string
  key?: string
  token?: string
}

export interface ApiRequest {
  method?: string
  /** body, sent as JSON */
  body?: unknown
  contentType?: string
  signal?: AbortSignal
}

export interface ApiAnswer {
  status: number
  body: string
}

/** A Kubernetes object, with the fields that its reader knows. */
// biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's, and differs by kind
export type KubernetesObject = Record<string, any>

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  object: KubernetesObject
}

/** A plain client of an API server: no retries, and no timeouts but the caller's signal. */
export class ApiClient {
  readonly #options: ApiClientOptions
  readonly #agent: Agent

  constructor(options: ApiClientOptions) {
    this.#options = options
    this.#agent = new Agent({ keepAlive: true, ca: options.ca, cert: options.certificate, key: options.key })
  }

  /** Resolves with any answer, also a refusal; rejects if the connection fails. */
  async request(path: string, init: ApiRequest = {}): Promise<ApiAnswer> {
    const answer = await this.#send(path, init)
    return { status: answer.statusCode ?? 0, body: await text(answer) }
  }

  async get(path: string, signal?: AbortSignal): Promise<KubernetesObject> {
    return accepted(path, await this.request(path, { ...(signal && { signal }) }))
  }

  /** @param path - path of the collection */
  async create(path: string, object: KubernetesObject): Promise<KubernetesObject> {
    return accepted(path, await this.request(path, { method: 'POST', body: object }))
  }

  /** Yields events as they come, until the server ends the watch or the signal aborts. */
  async *watch(path: string, signal: AbortSignal): AsyncGenerator<WatchEvent> {
    const answer = await this.#send(`${path}${path.includes('?') ? '&' : '?'}watch=1`, { signal })
    if (answer.statusCode !== 200) accepted(path, { status: answer.statusCode ?? 0, body: await text(answer) })
    let rest = ''
    for await (const chunk of answer.setEncoding('utf8')) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) yield JSON.parse(line)
    }
  }

  /** Returns the first object at `path` (a collection) that satisfies `condition`, now or later. */
  async until(path: string, condition: (object: KubernetesObject) => boolean, signal: AbortSignal) {
    const stop = new AbortController()
    try {
      for await (const event of this.watch(path, AbortSignal.any([signal, stop.signal]))) {
        if (event.type !== 'DELETED' && condition(event.object)) return event.object
      }
    } finally {
      stop.abort()
    }
    throw new Error(`the watch of ${path} ended`)
  }

  close(): void {
    this.#agent.destroy()
  }

  async #send(path: string, init: ApiRequest): Promise<IncomingMessage> {
    const sent = request(new URL(path, this.#options.server), {
      agent: this.#agent,
      method: init.method ?? 'GET',
      headers: {
        ...(this.#options.token && { authorization: `Bearer ${this.#options.token}` }),
        ...(init.body !== undefined && { 'content-type': init.contentType ?? 'application/json' }),
      },
      ...(init.signal && { signal: init.signal }),
    })
    const answered = once(sent, 'response')
    sent.end(init.body === undefined ? undefined : JSON.stringify(init.body))
    const [answer] = (await answered) as [IncomingMessage]
    return answer
  }
}

function accepted(path: string, answer: ApiAnswer): KubernetesObject {
  if (answer.status >= 300) throw new Error(`${path}: HTTP ${answer.status}: ${answer.body}`)
  return JSON.parse(answer.body)
}
