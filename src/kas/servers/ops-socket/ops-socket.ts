import type { IncomingMessage, ServerResponse } from 'node:http'
import { Drain } from '../../../lib/drain.ts'
import { KasError } from '../../../lib/errors.ts'
import { http } from '../../../lib/http.ts'
import type { Logger } from '../../../lib/log.ts'
import type { Service } from '../../../lib/service.ts'
import { claimSocket } from '../../../lib/stale-socket.ts'

export interface OpsSocketComponents {
  /** answers by path, sent as JSON. @throws KasError, whose text is sent */
  readonly answers: Readonly<Record<string, OpsAnswer>>
  /** answers by path to POST requests, which change something */
  readonly actions?: Readonly<Record<string, OpsAnswer>>
  /** streams by path; each line is JSON. @throws KasError, whose text is sent */
  readonly streams?: Readonly<Record<string, OpenStream>>
  readonly log: Logger
}

export type OpsAnswer = (query: URLSearchParams) => object | Promise<object>

export type OpenStream = (query: URLSearchParams) => LineStream | Promise<LineStream>

export interface LineStream {
  /** headers of the answer */
  readonly headers?: Readonly<Record<string, string>>
  /** each with its line end */
  readonly lines: readonly string[]
  /** Calls `listener` with each further line, until the returned function is called; absent: there are none. */
  readonly follow?: (listener: (line: string) => void) => () => void
}

export interface OpsSocketOptions {
  /** `ops.socket` */
  readonly path: string
}

/** Time for a query, which is one line from this machine. ms */
const requestTimeoutMs = 5000
/** Bytes of a stream that its reader has not taken: beyond them the stream is cut. */
const maxUnreadBytes = 4 * 1024 * 1024
/** Streams at once (`log_readers`): each may keep all known lines in memory. */
const maxStreams = 16
/** Permissions of the socket: only this user may query. */
const privateUmask = 0o177

/** Serves `kas status` and `kas route`: HTTP on a Unix socket, with JSON answers (doc/operate/operations.md). */
export class OpsSocket implements Service {
  readonly #components: OpsSocketComponents
  readonly #options: OpsSocketOptions
  #drain: Drain | undefined
  #streams = 0

  constructor(components: OpsSocketComponents, options: OpsSocketOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws Error when another process listens there, or the path cannot be created */
  async start(): Promise<void> {
    const { path } = this.#options
    const { log } = this.#components
    const options = { requestTimeout: requestTimeoutMs, headersTimeout: requestTimeoutMs }
    const server = http.createServer(options, (request, response) => this.#answer(request, response))
    this.#drain = new Drain({ server, log, drain: () => server.closeAllConnections() }) // answers take a second at most
    const release = await claimSocket(path)
    await listenPrivately(this.#drain, path).finally(release)
    log.info({ net_network: 'unix', net_address: path }, 'Operations socket is up')
  }

  async stop(patience?: AbortSignal): Promise<void> {
    await this.#drain?.stop(patience)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    this.#asked(request, response).catch((cause: unknown) => {
      const error = KasError.from(cause)
      if (error.code === 'INTERNAL') this.#components.log.error({ error }, 'The state could not be reported')
      send(response, error.httpStatus, { error: error.message })
    })
  }

  async #asked({ url = '/', method }: IncomingMessage, response: ServerResponse): Promise<void> {
    const { answers, actions = {}, streams = {} } = this.#components
    const { pathname, searchParams } = new URL(url, 'http://ops')
    const of = <T>(all: Readonly<Record<string, T>>) => (Object.hasOwn(all, pathname) ? all[pathname] : undefined)
    const stream = method === 'GET' ? of(streams) : undefined
    const answer = method === 'GET' ? of(answers) : method === 'POST' ? of(actions) : undefined
    if (stream) await this.#stream(response, stream, searchParams)
    else if (answer) send(response, 200, await answer(searchParams))
    else send(response, 404, { error: 'not found' })
  }

  async #stream(response: ServerResponse, open: OpenStream, query: URLSearchParams): Promise<void> {
    if (this.#streams >= maxStreams) {
      throw new KasError({
        code: 'TOO_MANY_STREAMS',
        name: 'log_readers',
        limit: maxStreams,
        what: 'readers of the log',
      })
    }
    this.#streams += 1
    response.on('close', () => {
      this.#streams -= 1
    })
    const { lines, follow, headers } = await open(query)
    response.writeHead(200, { 'Content-Type': 'application/x-ndjson', ...headers })
    response.write(lines.join(''))
    if (!follow) return void response.end()
    response.flushHeaders()
    const allowed = response.writableLength + maxUnreadBytes // the first lines are not the reader's fault
    const stop = follow((line) => {
      if (response.writableLength > allowed) response.destroy()
      else response.write(line)
    })
    if (response.destroyed) stop()
    else response.on('close', stop)
  }
}

function listenPrivately(drain: Drain, path: string): Promise<void> {
  const before = process.umask(privateUmask)
  try {
    return drain.listen({ path }) // creates the file at once
  } finally {
    process.umask(before)
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
}
