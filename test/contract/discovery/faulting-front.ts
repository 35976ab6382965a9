import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Agent, request } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { TornDown } from '../../support/processes.ts'

export interface FrontRequest {
  readonly kind: 'endpointslices' | 'endpoints'
  readonly watch: boolean
}

/** Reaction of the front in place of the API server. */
export type FrontFault =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>> }
  | { readonly delayMs: number }
  /** a watch that sends these lines and ends */
  | { readonly lines: string }
  | 'silence'
  | 'cut'

/** A plain HTTP front of an API server. It can fail in place of the server. */
export class FaultingFront {
  readonly requests: FrontRequest[] = []
  fault: (request: FrontRequest) => FrontFault | undefined = () => undefined
  readonly #server: Server
  readonly #agent: Agent
  readonly #target: string
  readonly #sockets = new Set<Socket>()
  /** epoch: streams of the current epoch pass, those of earlier ones are frozen */
  #time = 0

  private constructor(target: string, ca: string) {
    this.#target = target
    this.#agent = new Agent({ ca, keepAlive: true })
    this.#server = createServer((incoming, answer) => this.#onRequest(incoming, answer))
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
  }

  /** @param options.ca - PEM of the authority for `target` (an https URL) */
  static async start(t: TornDown, options: { target: string; ca: string }): Promise<FaultingFront> {
    const front = new FaultingFront(options.target, options.ca)
    front.#server.listen(0, '127.0.0.1')
    t.teardown(() => front.#close())
    await once(front.#server, 'listening')
    return front
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** number of connections that a client has open */
  get connections(): number {
    return this.#sockets.size
  }

  /** Freezes the existing streams: neither bytes nor their end pass. */
  freeze(): void {
    this.#time++
  }

  /** Cuts all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #onRequest(incoming: IncomingMessage, answer: ServerResponse): void {
    const url = new URL(incoming.url ?? '/', this.#target)
    const kind = url.pathname.endsWith('/endpointslices') ? 'endpointslices' : 'endpoints'
    const asked: FrontRequest = { kind, watch: url.searchParams.get('watch') === 'true' }
    this.requests.push(asked)
    const fault = this.fault(asked)
    if (fault === 'silence') return
    if (fault === undefined) this.#pass(incoming, answer, url)
    else if (fault === 'cut') incoming.socket.destroy()
    else if ('lines' in fault) answer.writeHead(200, { 'content-type': 'application/json' }).end(fault.lines)
    else if ('delayMs' in fault) {
      const timer = setTimeout(() => this.#pass(incoming, answer, url), fault.delayMs)
      answer.on('close', () => clearTimeout(timer))
    } else refuse(answer, fault)
  }

  #pass(incoming: IncomingMessage, answer: ServerResponse, url: URL): void {
    const time = this.#time
    const { host: _, ...headers } = incoming.headers
    const sent = request(url, { agent: this.#agent, method: incoming.method, headers })
    sent.on('error', () => time === this.#time && answer.destroy())
    sent.on('response', (response) => {
      answer.writeHead(response.statusCode ?? 500, response.headers)
      answer.flushHeaders()
      response.on('data', (chunk) => void (time === this.#time && answer.write(chunk)))
      response.on('end', () => void (time === this.#time && answer.end()))
      response.on('error', () => void (time === this.#time && answer.destroy()))
    })
    answer.on('close', () => sent.destroy())
    sent.end()
  }

  #close(): void {
    this.cut()
    this.#server.close()
    this.#agent.destroy()
  }
}

function refuse(answer: ServerResponse, fault: Extract<FrontFault, { status: number }>): void {
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: fault.status, message: 'by the front' }
  answer.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers }).end(JSON.stringify(status))
}
