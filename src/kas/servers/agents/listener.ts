import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { WebSocketServer } from 'ws'
import type { CertificateFiles } from '../../../lib/certificate-files.ts'
import { networkOf, remoteOf } from '../../../lib/host-port.ts'
import { http } from '../../../lib/http.ts'
import { Lingering, strangersLingering } from '../../../lib/lingering.ts'
import { LoopTurns } from '../../../lib/loop-turns.ts'
import { createTlsServer } from '../../../lib/tls-server.ts'
import { WebSocketDuplex, webSocketProtocol } from '../../../proto/grpc/websocket-duplex.ts'
import type { ClientAddresses, Origin } from '../addresses/client-addresses.ts'
import type { RefusalReason } from './refusals.ts'

export interface ListenerOptions {
  /** value of the Server header of HTTP answers */
  readonly product: string
  readonly addresses: ClientAddresses
  /** absent: plain, without TLS */
  readonly certificate?: CertificateFiles | undefined
  /** WebSocket is served too; else only HTTP/2 */
  readonly websocket: boolean
  /** time from a connection's start to its first 24 bytes, and then to the end of its upgrade's head. ms */
  readonly firstBytesTimeoutMs: number
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const protocolError = 1002

/** Sessions that begin in one turn of the event loop: each takes some ms with the streams that it may open at once. */
const begunPerTurn = 2
/** Bound of connections that wait for turns; connections that are not let in have a lower bound. */
const maxWaiting = 20_000

interface Undecided {
  /** closes the connection if it takes too long */
  timeout: NodeJS.Timeout
  readonly onClose: () => void
  /** leaves the turns; undefined: the connection does not wait for one */
  leaveTurns: (() => void) | undefined
}

export interface ListenerEvents {
  /**
   * Called with an accepted connection, whose bytes begin with the HTTP/2 preface.
   *
   * @param remote - `address:port`
   */
  connection(duplex: Duplex, remote: string, origin: Origin): void
  /** Called when a front's connection asks for a WebSocket, so its only client is known. May close the socket. */
  identified(socket: Socket, address: string | undefined): void
  /** called with the error of a connection that failed during TLS or HTTP */
  readonly failed: (error: unknown) => void
  refused(reason: RefusalReason): void
}

/**
 * Accepts gRPC and gRPC inside a WebSocket on one port, plain or TLS. The first bytes after TLS show which
 * (doc/reference/tunnel-protocol.md 2.2). If many connections send at once, some begin in each turn of the event loop,
 * one network after another.
 */
export class Listener {
  readonly server: Server
  readonly #http: HttpServer
  readonly #webSockets: WebSocketServer
  /** connections that are not HTTP/2 yet */
  readonly #undecided = new Map<Socket, Undecided>()
  readonly #turns = new LoopTurns(begunPerTurn, maxWaiting)
  readonly #options: ListenerOptions
  readonly #events: ListenerEvents

  constructor(options: ListenerOptions, events: ListenerEvents) {
    this.#options = options
    this.#events = events
    this.#http = this.#createHttp()
    this.#webSockets = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      handleProtocols: (offered) => (offered.has(webSocketProtocol) ? webSocketProtocol : false),
    })
    this.#webSockets.on('headers', (headers) => headers.push(`Server: ${options.product}`))
    this.server = this.#createServer()
  }

  /** Closes connections that are not HTTP/2 yet. */
  closeUndecided(): void {
    for (const socket of this.#undecided.keys()) socket.destroy()
  }

  #createServer(): Server {
    const accept = (socket: Socket) => this.#accept(socket)
    const { certificate, websocket, firstBytesTimeoutMs } = this.#options
    if (!certificate) return createServer({ noDelay: true }, accept)
    const ALPNProtocols = websocket ? ['h2', 'http/1.1'] : ['h2']
    const server = createTlsServer({ ALPNProtocols, handshakeTimeout: firstBytesTimeoutMs }, certificate)
    server.on('secureConnection', (socket: TLSSocket) => accept(socket.setNoDelay(true)))
    server.on('tlsClientError', (error: NodeJS.ErrnoException) => {
      this.#events.failed(error)
      if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') this.#events.refused('too_slow')
      else if (error.code !== 'ECONNRESET') this.#events.refused('tls') // else it left, as health checks do
    })
    return server
  }

  #accept(socket: Socket): void {
    const onClose = () => {
      this.#undecided.get(socket)?.leaveTurns?.()
      this.#decided(socket)
    }
    this.#undecided.set(socket, { timeout: this.#timeOut(socket), onClose, leaveTurns: undefined })
    socket.on('error', this.#events.failed)
    socket.on('close', onClose)
    this.#awaitFirst(socket)
  }

  /** Closes a slow connection: node's own timeouts need an HTTP server that listens, and this one does not. */
  #timeOut(socket: Socket): NodeJS.Timeout {
    return setTimeout(() => {
      this.#events.refused('too_slow')
      socket.destroy()
    }, this.#options.firstBytesTimeoutMs)
  }

  #awaitFirst(socket: Socket): void {
    const onFirstBytes = () => {
      socket.off('readable', onFirstBytes)
      const leaveTurns = this.#turns.enter(
        networkOf(this.#originOf(socket).address ?? ''),
        () => this.#decide(socket),
        () => socket.destroy(),
      )
      const undecided = this.#undecided.get(socket)
      if (!leaveTurns || !undecided) return
      undecided.leaveTurns = leaveTurns
      clearTimeout(undecided.timeout) // waiting for a turn is not slow
    }
    socket.on('readable', onFirstBytes)
  }

  /** Decides about a connection that has sent its first bytes. */
  #decide(socket: Socket): void {
    const undecided = this.#undecided.get(socket)
    if (!undecided) return
    undecided.leaveTurns = undefined
    clearTimeout(undecided.timeout)
    undecided.timeout = this.#timeOut(socket)
    this.#readFirst(socket)
  }

  /** Reads the first bytes in a function of its own, so that the connection does not keep them in memory. */
  #readFirst(socket: Socket): void {
    let head: Buffer = Buffer.alloc(0)
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null
      if (!chunk) return
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk])
      const length = Math.min(head.length, preface.length)
      const isHttp2 = head.subarray(0, length).equals(preface.subarray(0, length))
      if (isHttp2 && head.length < preface.length) return // the preface comes in pieces
      socket.unshift(head) // only now: earlier the socket would be readable again at once, in an endless loop
      socket.off('readable', onReadable)
      if (isHttp2) {
        this.#decided(socket)
        this.#events.connection(socket, remoteOf(socket) ?? '', this.#originOf(socket))
      } else if (this.#options.websocket) this.#http.emit('connection', socket)
      else {
        this.#events.refused('protocol')
        socket.destroy()
      }
    }
    socket.on('readable', onReadable)
    onReadable()
  }

  #decided(socket: Socket): void {
    const undecided = this.#undecided.get(socket)
    if (!undecided) return
    clearTimeout(undecided.timeout)
    socket.off('close', undecided.onClose)
    this.#undecided.delete(socket)
  }

  #createHttp(): HttpServer {
    const server = http.createServer({ keepAliveTimeout: 1 })
    server.on('request', (request, response) => this.#refuseRequest(request, response))
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
    server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
      this.#events.failed(error)
      if (error.code !== 'ECONNRESET') this.#events.refused('protocol')
      if (!socket.writable) return void socket.destroy()
      socket.write('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
      new Lingering(socket as Socket, strangersLingering)
    })
    return server
  }

  #refuseRequest(request: IncomingMessage, response: ServerResponse): void {
    const { method } = request
    this.#events.refused('upgrade')
    // nobody reads the request's body, which may be endless and slow
    response.once('finish', () => request.complete || new Lingering(request.socket, strangersLingering))
    const own = { 'content-type': 'text/plain; charset=utf-8', server: this.#options.product }
    if (method === 'GET') {
      response.writeHead(426, { connection: 'Upgrade', upgrade: 'websocket', ...own })
      response.end(
        'This is where agents connect: a WebSocket upgrade with sub-protocol ws-tunnel, or gRPC, is expected\n',
      )
    } else response.writeHead(405, { allow: 'GET', ...own }).end('method not allowed\n')
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const refusal = refusalOf(request)
    if (refusal) {
      this.#refuse(socket, refusal)
      return
    }
    const origin = this.#clientOf(request)
    if (socket.destroyed) return // the server had no room for it
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      if (webSocket.protocol !== webSocketProtocol) {
        this.#events.refused('upgrade')
        webSocket.on('error', (error) => this.#events.failed(error))
        webSocket.close(protocolError, `expecting "${webSocketProtocol}" subprotocol, got "${webSocket.protocol}"`)
        return
      }
      this.#decided(request.socket)
      const duplex = new WebSocketDuplex(webSocket, { connection: socket, masking: 'none' })
      duplex.on('error', ignore) // the session receives the error too
      this.#events.connection(duplex, remoteOf(request.socket) ?? '', origin)
    })
  }

  #originOf(socket: Socket): Origin {
    return this.#options.addresses.of(remoteOf(socket))
  }

  /** Returns the WebSocket's client: the bytes inside are the client's, not the front's. */
  #clientOf({ socket, headers }: IncomingMessage): Origin {
    const origin = this.#originOf(socket)
    if (!origin.isFront) return origin
    const forwarded = [headers['x-forwarded-for'] ?? []].flat()
    const address = this.#options.addresses.ofRequest(origin, forwarded)
    this.#events.identified(socket, address)
    return { address, isFront: false }
  }

  #refuse(socket: Duplex, { status, text }: Refusal): void {
    this.#events.refused('upgrade')
    const body = `${text}\n`
    socket.write(
      `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nServer: ${this.#options.product}\r\nConnection: close\r\n` +
        `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    new Lingering(socket as Socket, strangersLingering)
  }
}

interface Refusal {
  readonly status: number
  readonly text: string
}

/** Refuses an upgrade as the WebSocket library of stock kas does (doc/reference/captured.md 1). */
function refusalOf({ method, headers }: IncomingMessage): Refusal | undefined {
  if (method !== 'GET') return { status: 405, text: 'handshake request method is not GET' }
  if (headers.upgrade?.toLowerCase() !== 'websocket') return { status: 426, text: 'Upgrade is not websocket' }
  if (headers['sec-websocket-version'] !== '13') return { status: 400, text: 'unsupported WebSocket protocol version' }
  const key = headers['sec-websocket-key'] ?? ''
  if (!/^[A-Za-z0-9+/]{22}==$/.test(key))
    return { status: 400, text: 'WebSocket protocol violation: bad Sec-WebSocket-Key' }
  if (headers.origin !== undefined && originHost(headers.origin) !== headers.host?.toLowerCase()) {
    return { status: 403, text: 'request Origin is not authorized for Host' }
  }
  return undefined
}

function originHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host.toLowerCase() : undefined
}

/** Shared by all connections: a closure would keep its request in memory. */
function ignore(): void {}
