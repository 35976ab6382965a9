import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import { claimSocket } from '../../../lib/stale-socket.ts'

export interface OpsSocketComponents {
  /** by path; what they give is told as JSON. @throws KasError, whose text is told */
  readonly answers: Readonly<Record<string, (query: URLSearchParams) => object>>
  readonly log: Logger
}

export interface OpsSocketOptions {
  /** `ops.socket` */
  readonly path: string
}

/** A question is one line, and who asks is on this machine. ms */
const requestTimeoutMs = 5000
/** Nobody else than this user may ask. */
const privateUmask = 0o177

/** What `kas status` and `kas route` ask: HTTP on a Unix socket, with JSON inside (doc/operations.md). */
export class OpsSocket implements Service {
  readonly #components: OpsSocketComponents
  readonly #options: OpsSocketOptions
  #server: Server | undefined

  constructor(components: OpsSocketComponents, options: OpsSocketOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws Error when another process listens there, or the path cannot be made */
  async start(): Promise<void> {
    const { path } = this.#options
    const release = await claimSocket(path)
    const server = await this.#listen(path).finally(release)
    server.on('error', (error) => this.#components.log.warn({ error }, 'A connection could not be accepted'))
    this.#server = server
    this.#components.log.info({ net_network: 'unix', net_address: path }, 'Operations socket is up')
  }

  async #listen(path: string): Promise<Server> {
    const options = { requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs }
    const server = createServer(options, (request, response) => this.#answer(request, response))
    const before = process.umask(privateUmask)
    try {
      server.listen({ path }) // makes the file at once
    } finally {
      process.umask(before)
    }
    await once(server, 'listening')
    return server
  }

  async stop(): Promise<void> {
    const server = this.#server
    if (!server?.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { answers, log } = this.#components
    request.resume()
    try {
      const { pathname, searchParams } = new URL(request.url ?? '/', 'http://ops')
      const answer = Object.hasOwn(answers, pathname) ? answers[pathname] : undefined
      if (answer && request.method === 'GET') send(response, 200, answer(searchParams))
      else send(response, 404, { error: 'not found' })
    } catch (cause) {
      const error = KasError.from(cause)
      if (error.code === 'INTERNAL') log.error({ error }, 'The state could not be told')
      send(response, error.httpStatus, { error: error.message })
    }
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}
