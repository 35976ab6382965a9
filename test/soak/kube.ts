import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, type RequestOptions, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'

export interface KubeOptions {
  /** https */
  readonly server: string
  /** PEM */
  readonly ca: string
  /** credential after `Bearer ` */
  readonly credential: string
  /** name in the server's certificate, if that is not its host */
  readonly servername?: string
}

/** TLS options of any client for these. */
export const trustOf = ({ ca, servername }: KubeOptions) => ({ ca, ...(servername !== undefined && { servername }) })

export interface KubeRequest {
  readonly method?: string
  /** body, sent as JSON */
  readonly body?: object
  readonly signal?: AbortSignal
  /** an open connection; default: one of a kept pool */
  readonly socket?: TLSSocket
}

export interface KubeAnswer {
  readonly status: number
  readonly body: string
}

/** A plain client of a Kubernetes API: no retries, and no timeouts but the caller's signal. */
export class Kube {
  readonly options: KubeOptions
  readonly #agent: Agent

  constructor(options: KubeOptions) {
    this.options = options
    this.#agent = new Agent({ keepAlive: true, ...trustOf(options) })
  }

  /** Resolves with the head of any answer. */
  async open(path: string, init: KubeRequest = {}): Promise<IncomingMessage> {
    const { server, credential } = this.options
    const content = init.body && JSON.stringify(init.body)
    const options: RequestOptions = {
      method: init.method ?? 'GET',
      headers: {
        authorization: `Bearer ${credential}`,
        ...(content && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(content) }),
      },
      ...(init.socket
        ? { createConnection: () => init.socket as TLSSocket }
        : { agent: this.#agent, ...trustOf(this.options) }),
      ...(init.signal && { signal: init.signal }),
    }
    const sent = request(new URL(path, server), options)
    const answered = once(sent, 'response')
    sent.end(content)
    const [answer] = (await answered) as [IncomingMessage]
    return answer
  }

  async ask(path: string, init: KubeRequest = {}): Promise<KubeAnswer> {
    const answer = await this.open(path, init)
    return { status: answer.statusCode ?? 0, body: await text(answer) }
  }

  /** @throws Error if the answer is not a success */
  async create(path: string, body: object): Promise<void> {
    const answer = await this.ask(path, { method: 'POST', body })
    if (answer.status >= 300) throw new Error(`POST ${path}: ${answer.status} ${answer.body}`)
  }

  /** Opens a connection; nothing has been sent on it. */
  async dial(): Promise<TLSSocket> {
    const { hostname, port } = new URL(this.options.server)
    const socket = connect({ host: hostname, port: Number(port), ...trustOf(this.options) })
    await once(socket, 'secureConnect')
    return socket
  }

  close(): void {
    this.#agent.destroy()
  }
}
