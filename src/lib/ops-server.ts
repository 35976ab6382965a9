import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { AddressInfo, ListenOptions, Socket } from 'node:net'
import type { CertificateFiles } from './certificate-files.ts'
import { Drain } from './drain.ts'
import { http } from './http.ts'
import type { Logger } from './log.ts'
import type { Registry } from './metrics.ts'
import type { Service } from './service.ts'
import { createHttpsServer } from './tls-server.ts'

export interface OpsComponents {
  readonly register: Registry
  /** `problem`: the reason why this program should get no work; undefined: it should */
  readonly readiness: { problem(): string | undefined }
  readonly log: Logger
  /** absent: plain HTTP; its owner starts and stops it */
  readonly certificate?: CertificateFiles
}

export interface OpsOptions {
  readonly listen: ListenOptions
  readonly metricsPath?: string
  readonly livenessPath?: string
  readonly readinessPath?: string
  /** value of the Server header */
  readonly product: string
  readonly readTimeoutMs?: number
  readonly writeTimeoutMs?: number
  readonly idleTimeoutMs?: number
}

/** doc/reference/tunnel-protocol.md 8.3 */
const defaults = {
  metricsPath: '/metrics',
  livenessPath: '/liveness',
  readinessPath: '/readiness',
  readTimeoutMs: 1000,
  writeTimeoutMs: 15_000,
  idleTimeoutMs: 60_000,
}

/** Bound of requests without an answer on one connection: probes and scrapers send one. */
const maxPipelinedRequests = 8

/** Serves metrics, liveness and readiness over HTTP, to any client (doc/reference/tunnel-protocol.md 8.3). */
export class OpsServer implements Service {
  readonly #components: OpsComponents
  readonly #options: OpsOptions & typeof defaults
  readonly #running = new WeakMap<Socket, number>()
  #server: Server | undefined
  #drain: Drain | undefined
  /** the running collection: requests that come meanwhile get the same text */
  #collecting: Promise<string> | undefined

  constructor(components: OpsComponents, options: OpsOptions) {
    this.#components = components
    this.#options = { ...defaults, ...options }
  }

  /** Address of the server; only after `start`. */
  get address(): AddressInfo | string {
    const address = this.#server?.address()
    if (!address) throw new Error('the ops server does not listen')
    return address
  }

  /** @throws Error if the address is taken */
  async start(): Promise<void> {
    const { listen, readTimeoutMs, idleTimeoutMs } = this.#options
    const { log } = this.#components
    const server = this.#createServer({
      headersTimeout: readTimeoutMs,
      requestTimeout: readTimeoutMs,
      keepAliveTimeout: idleTimeoutMs,
      connectionsCheckingInterval: Math.ceil(readTimeoutMs / 2), // the default is 30 s, too long for it
    })
    server.on('request', (request, response) => {
      if (this.#takesOneMore(request.socket, response)) void this.#answer(request, response)
    })
    this.#server = server
    this.#drain = new Drain({ server, log, drain: () => server.closeIdleConnections() })
    await this.#drain.listen(listen)
  }

  /** Stops the server. It answers until then, so that probes see that this program leaves. */
  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
  }

  #createServer(options: ServerOptions): Server {
    const { certificate } = this.#components
    return certificate ? createHttpsServer(options, certificate) : http.createServer(options)
  }

  /**
   * Counts a request of a connection. False: the client has sent too many without reading their answers, and is cut.
   */
  #takesOneMore(socket: Socket, response: ServerResponse): boolean {
    const running = (this.#running.get(socket) ?? 0) + 1
    if (running > maxPipelinedRequests) {
      socket.destroy()
      return false
    }
    this.#running.set(socket, running)
    response.once('close', () => this.#running.set(socket, (this.#running.get(socket) ?? 1) - 1))
    return true
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { writeTimeoutMs, product } = this.#options
    const writing = setTimeout(() => response.destroy(), writeTimeoutMs).unref()
    response.once('close', () => clearTimeout(writing))
    response.setHeader('Server', product)
    request.resume()
    try {
      await this.#route(request, response)
    } catch (error) {
      this.#components.log.error({ error, url_path: request.url }, 'Metrics could not be collected')
      send(response, 500, 'Internal error')
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { metricsPath, livenessPath, readinessPath } = this.#options
    const { register, readiness } = this.#components
    const path = request.url?.replace(/\?.*$/s, '')
    if (path !== metricsPath && path !== livenessPath && path !== readinessPath) return send(response, 404, 'Not found')
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return send(response.setHeader('Allow', 'GET, HEAD'), 405, 'Method not allowed')
    if (path === livenessPath) return send(response, 200, '')
    if (path === readinessPath) {
      const problem = readiness.problem()
      return send(response, problem === undefined ? 200 : 500, problem ?? '')
    }
    this.#collecting ??= register.metrics().finally(() => {
      this.#collecting = undefined
    })
    const text = await this.#collecting
    response.setHeader('Content-Type', register.contentType).end(text)
  }
}

function send(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent) return void response.destroy()
  response.statusCode = status
  if (text !== '') response.setHeader('Content-Type', 'text/plain; charset=utf-8')
  response.end(text)
}
