import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import { createInterface } from 'node:readline'
import type { Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { bearerOf } from '../support/stack-directory.ts'

export const kubernetesPath = '/-/kubernetes-agent/k8s-proxy'
export const bearerFor = (agentId: number) => `Bearer ${bearerOf('agent').replace(/^ci:\d+/, `ci:${agentId}`)}`

export interface Sent {
  readonly method?: string
  readonly body?: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Calls a cluster through a front, each request on a connection of its own. */
export class FrontClient {
  readonly #base: string
  readonly #ca: string
  readonly #authorization: string

  /** @param front - `url` of the front, without path */
  constructor(front: { url: string; ca: string }, agentId: number) {
    this.#base = `${front.url}${kubernetesPath}`
    this.#ca = front.ca
    this.#authorization = bearerFor(agentId)
  }

  async send(path: string, sent: Sent = {}) {
    const answer = await this.open(path, sent)
    return { status: answer.statusCode, headers: answer.headers, body: await buffer(answer) }
  }

  /** The double's report of the request that reached it. */
  async echo(path: string, sent: Sent = {}) {
    const { status, body } = await this.send(path, sent)
    if (status !== 200) throw new Error(`${status} ${body}`)
    return JSON.parse(String(body)) as { method: string; url: string; bytes: number; sha256: string }
  }

  /** Opens a request. @returns the answer's head, with the body to come */
  async open(path: string, { body, ...sent }: Sent = {}): Promise<IncomingMessage> {
    const length = body ? { 'content-length': String(body.length) } : {} // node sends none with DELETE
    const asked = this.#request(path, { ...sent, headers: { ...sent.headers, ...length } })
    const answered = once(asked, 'response')
    asked.end(body)
    const [answer] = (await answered) as [IncomingMessage]
    return answer
  }

  /** Lines of a body without end. */
  async lines(path: string, sent: Sent = {}): Promise<AsyncIterator<string>> {
    return createInterface(await this.open(path, sent))[Symbol.asyncIterator]()
  }

  /** Upgrades a request. @returns its connection. @throws Error with the status of any other answer */
  async upgrade(path: string, protocol: string, method: string): Promise<Duplex> {
    const key = { 'sec-websocket-key': randomBytes(16).toString('base64'), 'sec-websocket-version': '13' }
    const headers = { connection: 'Upgrade', upgrade: protocol, ...(protocol === 'websocket' ? key : {}) }
    const asked = this.#request(path, { method, headers })
    const upgraded = once(asked, 'upgrade') as Promise<[IncomingMessage, Duplex, Buffer]>
    const answered = once(asked, 'response').then(([answer]) => {
      throw new Error(`no upgrade: ${answer.statusCode}`)
    })
    asked.end()
    const [, socket, head] = await Promise.race([upgraded, answered])
    socket.unshift(head)
    return socket
  }

  #request(path: string, { headers, ...sent }: Omit<Sent, 'body'>) {
    const options: RequestOptions = { ...sent, agent: false, ca: this.#ca }
    return request(`${this.#base}${path}`, { ...options, headers: { authorization: this.#authorization, ...headers } })
  }
}
