import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { jwtVerify } from 'jose'
import { agentOf, answer, type GitlabAnswer, type GitlabRequest, modulesPath, needsJwt } from './gitlab-endpoints.ts'
import { type GitlabVersion, gitlabVersions } from './gitlab-versions.ts'
import { type GitlabWorld, suiteWorld } from './gitlab-world.ts'

/** Faults of GitLab. */
export type GitlabFault =
  /** answers with this status instead */
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: string }
  /** a page, with status 200 */
  | { readonly kind: 'html' }
  /** half of its answer, then the connection ends */
  | { readonly kind: 'half' }
  /** no answer at all, until the fault ends */
  | { readonly kind: 'silent' }
  /** its answer, after so long */
  | { readonly kind: 'slow'; readonly ms: number }
  /** JSON that is not GitLab's */
  | { readonly kind: 'json'; readonly body: unknown }

export interface GitlabCallRecord extends GitlabRequest {
  /** header names as they were sent */
  readonly rawHeaders: readonly string[]
  /** milliseconds since 1970 */
  readonly at: number
  readonly userAgent: string | undefined
}

export interface GitlabDoubleOptions {
  readonly version?: GitlabVersion
  readonly world?: GitlabWorld
  /** GitLab's relative root, such as `/gitlab` */
  readonly root?: string
  /** PEM; absent: plain HTTP */
  readonly tls?: { readonly certificate: string; readonly key: string }
}

const maxBodyBytes = 16 << 20
const jwtRefused = { status: 401, body: { message: '401 Unauthorized - KAS JWT authentication invalid' } }

/** Rails' internal API over HTTP, with the codes of each version, and faults that a test sets. */
export class GitlabDouble {
  readonly secret = randomBytes(32)
  readonly calls: GitlabCallRecord[] = []
  /** accepted posts, by path below /api/v4 */
  readonly taken = new Map<string, unknown[]>()
  version: GitlabVersion
  world: GitlabWorld
  /** fault of all calls, or of those of one path below /api/v4 */
  fault: (GitlabFault & { readonly path?: string }) | undefined
  /** one of GitLab's modules, which gets the requests of known agents; absent: there is none */
  module: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
  /** GitLab's clock, for JWTs */
  now: () => number = Date.now
  readonly #root: string
  readonly #tls: GitlabDoubleOptions['tls']
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined
  #port = 0
  /** number of opened connections */
  connections = 0

  constructor(options: GitlabDoubleOptions = {}) {
    this.version = options.version ?? '18.9'
    this.world = options.world ?? suiteWorld()
    this.#root = options.root ?? ''
    this.#tls = options.tls
  }

  static async start(
    t: { teardown(action: () => unknown): void },
    options: GitlabDoubleOptions = {},
  ): Promise<GitlabDouble> {
    const double = new GitlabDouble(options)
    t.teardown(() => double.leave())
    await double.come()
    return double
  }

  /** Value for `gitlab.address`. */
  get address(): string {
    return `${this.#tls ? 'https' : 'http'}://127.0.0.1:${this.#port}${this.#root}`
  }

  /** Listens, at the same port as before. */
  async come(): Promise<void> {
    const serve = (request: IncomingMessage, response: ServerResponse) => void this.#serve(request, response)
    const tls = this.#tls
    const server = tls ? createTlsServer({ cert: tls.certificate, key: tls.key }, serve) : createServer(serve)
    server.on('connection', (socket: Socket) => {
      this.connections += 1
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
    server.listen(this.#port, '127.0.0.1')
    await once(server, 'listening')
    this.#server = server
    this.#port = (server.address() as AddressInfo).port
  }

  /** Stops listening; connections end. */
  async leave(): Promise<void> {
    const server = this.#server
    if (!server) return
    this.#server = undefined
    const closed = once(server, 'close')
    server.close()
    this.cut()
    await closed
  }

  /** Ends the open connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Calls of one path below /api/v4. */
  of(path: string): GitlabCallRecord[] {
    return this.calls.filter((call) => call.path === path)
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined) // the caller may leave at any time
    request.on('error', () => undefined)
    const head = this.#head(request)
    const isModule = head.path.startsWith(modulesPath)
    const call = isModule ? head : await this.#withBody(request, head)
    if (!call) return
    this.calls.push(call)
    const { fault } = this
    const applies = fault && (fault.path === undefined || fault.path === call.path) ? fault : undefined
    if (applies?.kind === 'silent') return
    if (applies?.kind === 'slow') await new Promise((resolve) => setTimeout(resolve, applies.ms))
    if (applies?.kind === 'html') return this.#html(response)
    if (applies?.kind === 'status') return this.#status(response, applies)
    if (applies?.kind === 'json') return this.#send(response, call, { status: 200, body: applies.body })
    if (isModule) return this.#serveModule(call, request, response)
    const right = await this.#answer(call)
    if (applies?.kind === 'half') return this.#half(response, right)
    this.#send(response, call, right)
  }

  #head(request: IncomingMessage): GitlabCallRecord {
    const url = new URL(request.url ?? '/', 'http://gitlab')
    return {
      method: request.method ?? '',
      path: url.pathname.startsWith(`${this.#root}/api/v4/`) ? url.pathname.slice(this.#root.length + 7) : url.pathname,
      query: url.searchParams,
      headers: request.headers as Record<string, string>,
      rawHeaders: request.rawHeaders,
      body: undefined,
      at: Date.now(),
      userAgent: request.headers['user-agent'],
    }
  }

  async #withBody(request: IncomingMessage, head: GitlabCallRecord): Promise<GitlabCallRecord | undefined> {
    const parts: Buffer[] = []
    let length = 0
    try {
      for await (const part of request as AsyncIterable<Buffer>) {
        length += part.length
        if (length > maxBodyBytes) throw new Error('the body is too large')
        parts.push(part)
      }
    } catch {
      return undefined // the caller left
    }
    const text = Buffer.concat(parts).toString('utf8')
    return { ...head, body: text === '' ? undefined : (JSON.parse(text) as unknown) }
  }

  async #serveModule(call: GitlabCallRecord, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!(await this.#isKas(call))) return this.#send(response, call, jwtRefused)
    const traits = gitlabVersions[this.version]
    const isKnown = agentOf(call, { world: this.world, traits }) !== undefined
    if (isKnown && this.module) this.module(request, response)
    else this.#send(response, call, { status: isKnown ? 404 : 401, body: { message: isKnown ? '404' : '401' } })
  }

  async #answer(call: GitlabCallRecord): Promise<GitlabAnswer> {
    const traits = gitlabVersions[this.version]
    if (needsJwt(call.path, traits) && !(await this.#isKas(call))) {
      return jwtRefused
    }
    return answer(call, { world: this.world, traits, taken: this.taken })
  }

  async #isKas({ headers }: GitlabCallRecord): Promise<boolean> {
    try {
      const currentDate = new Date(this.now())
      const expected = { issuer: 'gitlab-kas', audience: 'gitlab', algorithms: ['HS256'], currentDate }
      await jwtVerify(headers['gitlab-kas-api-request'] ?? '', this.secret, expected)
      return true
    } catch {
      return false
    }
  }

  #send(response: ServerResponse, { headers }: GitlabCallRecord, { status, body }: GitlabAnswer): void {
    if (body === undefined) return void response.writeHead(status).end()
    const json = Buffer.from(JSON.stringify(body))
    const type = { 'Content-Type': 'application/json; charset=utf-8' }
    const isPacked = headers['accept-encoding']?.includes('gzip')
    if (!isPacked) return void response.writeHead(status, type).end(json)
    response.writeHead(status, { ...type, 'Content-Encoding': 'gzip' }).end(gzipSync(json))
  }

  #status(response: ServerResponse, { status, retryAfter }: { status: number; retryAfter?: string }): void {
    response.writeHead(status, { 'Content-Type': 'text/plain', ...(retryAfter ? { 'Retry-After': retryAfter } : {}) })
    response.end('no')
  }

  #html(response: ServerResponse): void {
    response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' })
    response.end('<html><body>GitLab is not responding</body></html>')
  }

  #half(response: ServerResponse, { status, body }: GitlabAnswer): void {
    const json = Buffer.from(JSON.stringify(body ?? {}))
    response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': json.length })
    response.write(json.subarray(0, json.length / 2), () => response.socket?.destroy())
  }
}
