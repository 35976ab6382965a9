import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import {
  connect as connectTls,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls'
import WebSocket from 'ws'
import { Deadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { http } from '../../lib/http.ts'
import { type ProxyKind, proxyFromEnvironment } from '../../lib/proxy.ts'
import { tlsFault } from '../../lib/tls-fault.ts'
import { WebSocketDuplex, webSocketProtocol } from '../../proto/grpc/websocket-duplex.ts'
import type { KasAddress } from './kas-address.ts'
import { otherPortOfKas, proxyPrefix } from './next-step.ts'

/** Limit, in ms, of dial, TLS, proxy and upgrade together (upstream: 30 s to dial, 20 s to connect for gRPC). */
const connectTimeoutMs = 30_000

export interface TransportOptions {
  readonly address: KasAddress
  /** file with authorities to trust besides the system's; read at each connection */
  readonly caFile?: string | undefined
  readonly serverName?: string | undefined
  readonly skipVerify?: boolean
  /** `--kas-header`, for the upgrade of ws and wss */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly userAgent: string
  /** read at each connection; the token is also sent with the upgrade, for proxies (agents since 17.2) */
  readonly authorization: () => string
  /** environment with HTTPS_PROXY, HTTP_PROXY and NO_PROXY */
  readonly env: NodeJS.ProcessEnv
}

/**
 * Connects to kas and returns a duplex that carries HTTP/2: a TCP or TLS socket, or the inside of a WebSocket.
 *
 * @throws KasError UNREACHABLE or the system's error, which name the step that failed; or the signal's reason
 */
export async function dialKas(options: TransportOptions, signal: AbortSignal): Promise<Duplex> {
  const deadline = new Deadline({ ms: connectTimeoutMs, signals: [signal] })
  const { address } = options
  const opened: Socket[] = []
  try {
    const open = address.tls ? openSecure : openSocket
    const socket = await open(options, deadline.signal, opened)
    return address.webSocket ? await upgrade(socket, options, deadline.signal) : socket
  } catch (error) {
    for (const socket of opened) socket.destroy()
    if (signal.aborted) throw signal.reason
    if (deadline.isPast) throw unreachable(`no connection to ${address.authority} in ${connectTimeoutMs / 1000} s`)
    throw error
  } finally {
    deadline.end()
  }
}

interface Failure extends ErrorOptions {
  readonly httpStatus?: number | undefined
}

function unreachable(detail: string, { httpStatus, ...options }: Failure = {}): KasError {
  return new KasError({ code: 'UNREACHABLE', detail, ...(httpStatus === undefined ? {} : { httpStatus }) }, options)
}

async function openSocket(options: TransportOptions, signal: AbortSignal, opened: Socket[]): Promise<Socket> {
  const { address } = options
  const proxy = proxyTo(options)
  if (proxy) return throughProxy(proxy, address, signal, opened)
  const socket = connectTcp({ host: address.host, port: address.port, noDelay: true, keepAlive: true })
  opened.push(socket)
  await once(socket, 'connect', { signal })
  return socket
}

/** @throws KasError UNREACHABLE that names the variable that cannot be read */
function proxyTo({ address, env }: TransportOptions): URL | undefined {
  try {
    return proxyFromEnvironment(env, kindOfProxy(address), address)
  } catch (cause) {
    throw unreachable(`${proxyPrefix}of the environment: ${(cause as Error).message}`, { cause })
  }
}

export const kindOfProxy = ({ scheme }: KasAddress): ProxyKind => (scheme === 'ws' ? 'http' : 'https')

async function throughProxy(proxy: URL, address: KasAddress, signal: AbortSignal, opened: Socket[]): Promise<Socket> {
  const secured = proxy.protocol === 'https:'
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`
  const authorization = proxy.username ? `Basic ${Buffer.from(credentials).toString('base64')}` : undefined
  const request: ClientRequest = (secured ? httpsRequest : http.request)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: Number(proxy.port) || (secured ? 443 : 80),
    method: 'CONNECT',
    path: address.authority,
    headers: { Host: address.authority, ...(authorization ? { 'Proxy-Authorization': authorization } : {}) },
    agent: false,
    signal,
  })
  request.end()
  const [response, socket, head] = await connectAnswer(request, proxy)
  opened.push(socket)
  if (response.statusCode !== 200) {
    const detail = `${proxyPrefix}${proxy.host} answered ${response.statusCode} to CONNECT ${address.authority}`
    throw unreachable(detail, { httpStatus: response.statusCode })
  }
  socket.setNoDelay(true)
  if (head.length > 0) socket.unshift(head)
  return socket
}

/** @throws KasError UNREACHABLE that names the proxy, because its failure is not one of kas */
async function connectAnswer(request: ClientRequest, { host }: URL): Promise<[IncomingMessage, Socket, Buffer]> {
  try {
    return (await once(request, 'connect')) as [IncomingMessage, Socket, Buffer]
  } catch (cause) {
    const { message, code } = cause as NodeJS.ErrnoException
    throw unreachable(`${proxyPrefix}${host} cannot be used: ${message || code}`, { cause })
  }
}

async function openSecure(options: TransportOptions, signal: AbortSignal, opened: Socket[]): Promise<TLSSocket> {
  const secureContext = trusted(options.caFile)
  try {
    return await secure(await openSocket(options, signal, opened), { ...options, secureContext }, signal, opened)
  } catch (error) {
    const all = allTrusted(secureContext, error)
    if (!all) throw error
    const again = await openSocket(options, signal, opened)
    return await secure(again, { ...options, secureContext: all }, signal, opened)
  }
}

async function secure(
  socket: Socket,
  options: TransportOptions & { secureContext: SecureContext },
  signal: AbortSignal,
  opened: Socket[],
): Promise<TLSSocket> {
  const { address, secureContext } = options
  const name = options.serverName ?? address.host
  const tls = connectTls({
    socket,
    ...(isIP(name) ? { host: name } : { servername: name }),
    secureContext,
    rejectUnauthorized: !options.skipVerify,
    // the WebSocket client of stock agents sends no ALPN either
    ...(address.webSocket ? {} : { ALPNProtocols: ['h2'] }),
  })
  opened.push(tls)
  await once(tls, 'secureConnect', { signal })
  if (!address.webSocket && tls.alpnProtocol !== 'h2') {
    throw unreachable(`${address.authority} does not speak HTTP/2 over TLS: is it an address for wss:// ?`)
  }
  return tls
}

/**
 * Masks with zero. A mask protects against a proxy on the way that reads the bytes. Inside TLS with a checked
 * certificate there is none. With a mask of zero, ws processes the bytes at neither end (doc/decisions/0019).
 */
function zeroMask(mask: Buffer): void {
  mask.fill(0)
}

function upgrade(socket: Socket, options: TransportOptions, signal: AbortSignal): Promise<Duplex> {
  const { address } = options
  const extra: Record<string, string[]> = {}
  for (const [name, value] of options.headers) extra[name] = [...(extra[name] ?? []), value]
  const unmasked = address.tls && !options.skipVerify
  const webSocket = new WebSocket(`${address.scheme}://${address.authority}${address.path}`, webSocketProtocol, {
    createConnection: () => socket,
    headers: { 'User-Agent': options.userAgent, Authorization: options.authorization(), ...extra },
    perMessageDeflate: false,
    followRedirects: false,
    ...(unmasked ? { generateMask: zeroMask } : {}),
  } as object)
  const duplex = new WebSocketDuplex(webSocket, { connection: socket, masking: unmasked ? 'zero' : 'random' })
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) => {
      signal.removeEventListener('abort', onAbort)
      duplex.on('error', () => undefined).destroy()
      reject(error)
    }
    const onAbort = () => fail(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    webSocket.once('unexpected-response', (_, response) => {
      response.resume()
      const { statusCode, headers } = response
      if (String(headers.server).startsWith(kasProduct)) {
        fail(unreachable(`${address.authority}${otherPortOfKas}`, { httpStatus: statusCode }))
        return
      }
      const hint = statusCode === 404 || statusCode === 301 ? `, is the path ${address.path} right?` : ''
      const detail = `${address.authority} answered ${statusCode} instead of a WebSocket upgrade${hint}`
      fail(unreachable(detail, { httpStatus: statusCode }))
    })
    webSocket.once('error', fail)
    webSocket.once('open', () => {
      signal.removeEventListener('abort', onAbort)
      webSocket.off('error', fail)
      resolve(duplex)
    })
  })
}

/** Beginning of the Server header of kas, GitLab's kas included. */
const kasProduct = 'gitlab-kas'

/** for the content of an authorities file, because parsing it takes longer than a handshake */
let kept: { readonly own: string | undefined; readonly few: SecureContext; all?: SecureContext } | undefined

/**
 * Returns the authorities that a connection to kas trusts: those in the file now or, without a file, Node's. After a
 * certificate was refused, they are `all`.
 */
function trusted(caFile: string | undefined): SecureContext {
  const own = caFile ? readFileSync(caFile, 'utf8') : undefined
  if (!kept || kept.own !== own) kept = { own, few: createSecureContext(own === undefined ? {} : { ca: own }) }
  return kept.all ?? kept.few
}

/**
 * Returns authorities for a second attempt, after one has failed. As in Go, they are the system's (SSL_CERT_FILE and
 * SSL_CERT_DIR included) and the file's. These hundreds take 5 MiB and 100 ms, so agentk tries them last.
 *
 * @param refused - authorities that the failed connection trusted
 * @returns undefined if it trusted all of them, or failed for another reason
 */
function allTrusted(refused: SecureContext, error: unknown): SecureContext | undefined {
  const fault = tlsFault((error as NodeJS.ErrnoException).code)
  if (!kept || refused === kept.all || (fault !== 'untrusted' && fault !== 'dates')) return undefined
  kept.all ??= createSecureContext({ ca: [...systemAuthorities(), ...(kept.own === undefined ? [] : [kept.own])] })
  return kept.all
}

function systemAuthorities(): ReadonlySet<string> {
  return new Set([...getCACertificates('default'), ...getCACertificates('system')])
}
