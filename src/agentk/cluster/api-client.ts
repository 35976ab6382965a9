import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { connect as connectTls, createSecureContext } from 'node:tls'
import type { Dispatcher } from 'undici'
import buildConnector from 'undici/lib/core/connect.js'
import Pool from 'undici/lib/dispatcher/pool.js'
import { isBuiltInGroup } from '../../kubernetes/built-in-groups.ts'
import { textAt } from '../../kubernetes/object.ts'
import { type Clock, monotonicClock, systemClock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { readOnAfterFailedWrite } from '../../lib/failed-write.ts'
import { Absence } from './absence.ts'
import { ApiExchange } from './api-exchange.ts'
import type { ApiRequest, ApiResponseHandler } from './api-request.ts'
import type { ClusterAccess, ClusterTls } from './cluster-access.ts'
import { GuardedClient, maxAnswerHeadBytes } from './head-guard.ts'

/** Path of the API server's version: everybody may read it, and it costs next to nothing. */
export const serverVersionPath = '/version'

/** Limit for TCP and TLS to the API server, in ms, as in upstream's dialer. */
export const dialTimeoutMs = 30_000
/** Time that idle connections are kept, in ms: less than the 90 s after which kube-apiserver closes them. */
const keepAliveMs = 60_000
/** More than all tunnels (500 at home, 80 at a standby), with one request each, watches of drift (100), and other requests. */
const maxConnections = 700
/** Limit of answers about one thing (a lease, a version, a created object), which are small; lists set their own. */
const maxJsonBytes = 1024 * 1024

export interface JsonOptions {
  readonly contentType?: string
  /** media types of the answer, best first; default: JSON */
  readonly accept?: string
  /** further headers, such as those of impersonation: name, value, name, value */
  readonly headers?: readonly string[]
  /** limit of the answer; default: 1 MiB */
  readonly maxBytes?: number
}

export interface JsonAnswer {
  readonly status: number
  /** undefined: the answer is no JSON */
  readonly body: unknown
  /** pause that the answer asks for before the next request */
  readonly retryAfterMs?: number
}

/** @returns the body of a success. @throws KasError UNREACHABLE with the server's status: the request failed */
export function bodyOf({ status, body }: JsonAnswer): unknown {
  if (status >= 200 && status < 300 && body) return body
  const message = textAt(body, 'message')
  const detail = `the API server answered ${status}${message && `: ${message}`}`
  throw new KasError({ code: 'UNREACHABLE', detail, httpStatus: status })
}

/** Time that an unsent request waits for a server that restarts, in ms: the longer restarts take some 10 s. */
const defaultDialPatienceMs = 15_000

export interface ApiClientOptions {
  /** time that unsent requests wait for a server that does not listen, in ms */
  readonly dialPatienceMs?: number
  /** limit for a connection, TLS included, in ms; default: 30 s */
  readonly connectTimeoutMs?: number
  readonly clock?: Clock
  /** Called with the `Date` of the API server's answer to agentk's own request, and with the time since the request. ms */
  readonly onDate?: (date: string, waitedMs: number) => void
}

/**
 * HTTP/1.1 to the cluster's API server, over kept connections, without time-outs on heads and bodies.
 *
 * It uses undici's `dispatch`, measured at 0.06 CPU seconds per 1,000 GETs of 1 KiB against 0.15 of node:https (16 in
 * flight). It uses HTTP/1.1, because node's HTTP/2 client costs more. With HTTP/2, one reader that stops could block
 * all others on the connection, and a server may send GOAWAY (`--goaway-chance`).
 */
export class ApiClient {
  readonly access: ClusterAccess
  readonly clock: Clock
  /** absence of the server, as all requests together have found it */
  readonly absence: Absence
  readonly #closing = new AbortController()
  readonly #basePath: string
  readonly #connectTimeoutMs: number
  readonly #onDate: ApiClientOptions['onDate']
  #current: { tls: ClusterTls; pool: Pool } | undefined
  /** pools with older certificates; each ends with its last request */
  readonly #leaving = new Set<Pool>()
  #unusable: ClusterTls | undefined

  constructor(access: ClusterAccess, options: ApiClientOptions = {}) {
    this.access = access
    this.clock = options.clock ?? systemClock
    const dial = (signal: AbortSignal) => dialOnce(access, AbortSignal.any([signal, this.#closing.signal]))
    const patienceMs = options.dialPatienceMs ?? defaultDialPatienceMs
    this.absence = new Absence({ clock: this.clock, dial }, { patienceMs })
    this.#onDate = options.onDate
    this.#connectTimeoutMs = options.connectTimeoutMs ?? dialTimeoutMs
    this.#basePath = access.server.pathname.replace(/\/+$/, '')
  }

  send(request: ApiRequest, handler: ApiResponseHandler): ApiExchange {
    const exchange = new ApiExchange(this, request, handler)
    exchange.start()
    return exchange
  }

  /** @internal Makes one attempt; the exchange makes further ones. */
  dispatch(request: ApiRequest, handler: Dispatcher.DispatchHandler): void {
    const authorization = this.access.authorization()
    const headers = authorization ? ['Authorization', authorization, ...request.headers] : (request.headers as string[])
    this.#pool().dispatch(
      {
        method: request.method,
        path: this.fullPath(request.path),
        headers,
        body: (request.body ?? null) as never,
        blocking: false,
        reset: false, // else each HEAD costs a connection
      },
      handler,
    )
  }

  /** Returns the request target on the server: its base path, then `path`. */
  fullPath(path: string): string {
    return this.#basePath + path
  }

  /**
   * Sends a request of agentk itself, with JSON both ways.
   *
   * @throws KasError MESSAGE_TOO_LARGE: the answer exceeds the limit; the connection's error; or the signal's reason
   */
  json(
    method: string,
    path: string,
    body?: unknown,
    signal?: AbortSignal,
    options: JsonOptions = {},
  ): Promise<JsonAnswer> {
    const { contentType = 'application/json', accept = 'application/json', maxBytes = maxJsonBytes } = options
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      const chunks: Buffer[] = []
      let bytes = 0
      let status = 0
      let pause: Pick<JsonAnswer, 'retryAfterMs'> = {}
      const onAbort = () => exchange.abort(signal?.reason)
      const settle = (settled: () => void) => {
        signal?.removeEventListener('abort', onAbort)
        settled()
      }
      const headers = ['Accept', accept, ...(options.headers ?? [])]
      if (body !== undefined) headers.push('Content-Type', contentType)
      const content = body === undefined ? {} : { body: Buffer.from(JSON.stringify(body)) }
      const sentAt = monotonicClock.now()
      const exchange = this.send(
        { method, path, headers, ...content },
        {
          onHead: (code, _, rawHeaders) => {
            status = code
            pause = retryAfter(rawHeaders)
            if (this.#onDate && isServersOwn(path))
              this.#onDate(headerOf(rawHeaders, /^date$/i), monotonicClock.now() - sentAt)
          },
          onData: (chunk) => {
            chunks.push(chunk)
            bytes += chunk.length
            if (bytes > maxBytes) exchange.abort(new KasError({ code: 'MESSAGE_TOO_LARGE', bytes, maxBytes }))
          },
          onEnd: () => settle(() => resolve({ status, body: parseJson(Buffer.concat(chunks).toString()), ...pause })),
          onError: (error) => settle(() => reject(error)),
        },
      )
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  /** Closes all connections, and cuts requests that still run. */
  async close(): Promise<void> {
    this.#closing.abort()
    const pools = [...this.#leaving, ...(this.#current ? [this.#current.pool] : [])]
    await Promise.all(pools.map((pool) => pool.destroy()))
  }

  /** A pool of connections with the files' present certificates: the server checks agentk's at each request. */
  #pool(): Pool {
    const tls = this.access.tls()
    if (this.#current?.tls === tls) return this.#current.pool
    if (this.#current) {
      if (!this.#isUsable(tls)) return this.#current.pool
      this.#leave(this.#current.pool)
    }
    const pool = new Pool(this.access.server.origin, {
      connect: this.#connector(tls),
      connections: maxConnections,
      pipelining: 1,
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      maxHeaderSize: maxAnswerHeadBytes, // also of trailers
      factory: (origin, options) => new GuardedClient(origin, options as never),
    })
    this.#current = { tls, pool }
    return pool
  }

  #connector(tls: ClusterTls): buildConnector.connector {
    const connect = buildConnector({ ...tls, timeout: this.#connectTimeoutMs, allowH2: false })
    return (target, done) =>
      connect(target, (...result) => {
        if (result[1]) {
          readOnAfterFailedWrite(result[1]) // an answer may come before the body was written
          this.absence.reached()
        }
        done(...result)
      })
  }

  /** False in the middle of a rotation, while key and certificate do not match. */
  #isUsable(tls: ClusterTls): boolean {
    if (tls === this.#unusable) return false
    try {
      createSecureContext(tls)
      return true
    } catch {
      this.#unusable = tls
      return false
    }
  }

  #leave(pool: Pool): void {
    this.#leaving.add(pool)
    void pool.close().then(() => this.#leaving.delete(pool))
  }
}

/** Opens one connection to the API server, TLS included, and closes it again. @throws the error of the attempt */
async function dialOnce(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  const { server } = access
  const secured = server.protocol === 'https:'
  const host = server.hostname.replace(/^\[|\]$/g, '')
  const port = Number(server.port) || (secured ? 443 : 80)
  const socket = secured
    ? connectTls({ host, port, ...access.tls(), ALPNProtocols: ['http/1.1'] })
    : connectTcp({ host, port })
  try {
    await once(socket, secured ? 'secureConnect' : 'connect', { signal })
  } finally {
    socket.on('error', () => undefined).destroy()
  }
}

/** True for a path that the API server serves itself: the `Date` of a server behind an APIService is another clock. */
function isServersOwn(path: string): boolean {
  const [, root, group = ''] = path.split(/[/?]/, 3)
  return root !== 'apis' || isBuiltInGroup(group)
}

/** Reads Retry-After in seconds, the form that API servers use. */
function retryAfter(rawHeaders: readonly Buffer[]): Pick<JsonAnswer, 'retryAfterMs'> {
  const seconds = Number(headerOf(rawHeaders, /^retry-after$/i) || Number.NaN)
  return seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}
}

/** @returns '': there is no such header */
function headerOf(rawHeaders: readonly Buffer[], called: RegExp): string {
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && called.test(name.toString('latin1')))
  return at < 0 ? '' : (rawHeaders[at + 1]?.toString('latin1') ?? '')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
