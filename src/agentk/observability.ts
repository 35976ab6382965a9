import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import type { CertificateFiles } from '../lib/certificate-files.ts'
import type { Service } from '../lib/service.ts'
import type { ListenAddress } from './config.ts'

export interface ObservabilityComponents {
  readonly register: Registry
  /** why this pod is not ready, undefined if it is */
  readonly problem: () => string | undefined
  readonly certificate?: CertificateFiles
}

/** wire-protocol 8.3 */
const readTimeoutMs = 1000

/** /metrics, /liveness and /readiness, open to all. */
export class Observability implements Service {
  readonly #components: ObservabilityComponents
  readonly #options: { readonly listen: ListenAddress; readonly product: string }
  #server: Server | undefined

  constructor(components: ObservabilityComponents, options: { listen: ListenAddress; product: string }) {
    this.#components = components
    this.#options = options
  }

  /** Where it listens; only after `start`. */
  get address(): AddressInfo | string {
    return this.#server?.address() as AddressInfo | string
  }

  /** @throws Error when the address is taken */
  async start(): Promise<void> {
    const { certificate } = this.#components
    const answer = (request: { url?: string | undefined }, response: ServerResponse) =>
      void this.#answer(request.url ?? '', response)
    const options = { headersTimeout: readTimeoutMs, requestTimeout: readTimeoutMs, connectionsCheckingInterval: 500 }
    await certificate?.start()
    if (certificate) {
      const server = createTlsServer({ ...options, ...certificate.current }, answer)
      certificate.onChange((next) => server.setSecureContext(next))
      this.#server = server
    } else this.#server = createServer(options, answer)
    this.#server.listen(this.#options.listen)
    await once(this.#server, 'listening')
  }

  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    await this.#components.certificate?.stop()
    if (!server?.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  async #answer(url: string, response: ServerResponse): Promise<void> {
    const { register, problem } = this.#components
    response.setHeader('Server', this.#options.product)
    const [path] = url.split('?')
    if (path === '/liveness') response.end()
    else if (path === '/readiness') {
      const reason = problem()
      if (reason) response.statusCode = 500
      response.end(reason)
    } else if (path === '/metrics') {
      response.setHeader('Content-Type', register.contentType)
      response.end(await register.metrics())
    } else response.writeHead(404).end()
  }
}
