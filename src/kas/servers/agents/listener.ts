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
import { MessageDuplex, webSocketProtocol } from '../../../proto/grpc/message-duplex.ts'
import type { ClientAddresses, Origin } from '../addresses/client-addresses.ts'
import type { RefusalReason } from './refusals.ts'

export interface ListenerOptions {
  /** the Server header of HTTP answers */
  readonly product: string
  readonly addresses: ClientAddresses
  /** absent: plain */
  readonly certificate?: CertificateFiles | undefined
  /** WebSocket too; else HTTP/2 alone */
  readonly websocket: boolean
  /** from a connection's start to its first 24 bytes, and to its last upgrade header. ms */
  readonly firstBytesTimeoutMs: number
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const protocolError = 1002

/** A session, and the streams that a stranger may open at once, take the event loop some ms. */
const begunPerTurn = 2
/** Connections that are not let in yet have a lower bound. */
const maxWaiting = 20_000

interface Undecided {
  /** closes it if it takes too long */
  timeout: NodeJS.Timeout
  readonly onClose: () => void
  /** while it waits for its turn */
  leaveTurns: (() => void) | undefined
}

export interface ListenerEvents {
  /**
   * What was accepted: bytes that begin with the HTTP/2 preface.
   *
   * @param remote - `address:port`
   */
  connection(duplex: Duplex, remote: string, origin: Origin): void
  /** A front asks for a WebSocket, which is one client's: whose is known now. It may be closed then. */
  identified(socket: Socket, address: string | undefined): void
  /** a connection that failed before it was one */
  readonly failed: (error: unknown) => void
  refused(reason: RefusalReason): void
}

/**
 * One port for gRPC and for gRPC inside a WebSocket, plain or TLS: the first bytes after TLS show which
 * (doc/reference/tunnel-protocol.md 2.2). Of many that speak at once some begin in each turn of the event loop, one
 * address after another.
 */
export class Listener {
  readonly server: Server
  readonly #http: HttpServer
  readonly #webSockets: WebSocketServer
  /** connections that have not become HTTP/2 yet */
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

  /** Closes connections that have not become HTTP/2 yet. */
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
      else if (error.code !== 'ECONNRESET') this.#events.refused('tls') // that one only left, as health checks do
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

  /** node's own time-outs need a server that listens, which the HTTP server here does not. */
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
      clearTimeout(undecided.timeout) // to wait for a turn is not slow
    }
    socket.on('readable', onFirstBytes)
  }

  /** Its first bytes are here. */
  #decide(socket: Socket): void {
    const undecided = this.#undecided.get(socket)
    if (!undecided) return
    undecided.leaveTurns = undefined
    clearTimeout(undecided.timeout)
    undecided.timeout = this.#timeOut(socket)
    this.#readFirst(socket)
  }

  /** Apart from what stays with the connection, which would keep its first bytes. */
  #readFirst(socket: Socket): void {
    let head: Buffer = Buffer.alloc(0)
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null
      if (!chunk) return
      head = head.length === 0 ? chunk : Buffer.concat([head, chunk])
      const length = Math.min(head.length, preface.length)
      const isHttp2 = head.subarray(0, length).equals(preface.subarray(0, length))
      if (isHttp2 && head.length < preface.length) return // a preface that comes in pieces
      socket.unshift(head) // only now: it would be readable again at once, for ever
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
    // nobody reads its body, which may come byte by byte and without end
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
    if (socket.destroyed) return // there is no room for it
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      if (webSocket.protocol !== webSocketProtocol) {
        this.#events.refused('upgrade')
        webSocket.on('error', (error) => this.#events.failed(error))
        webSocket.close(protocolError, `expecting "${webSocketProtocol}" subprotocol, got "${webSocket.protocol}"`)
        return
      }
      this.#decided(request.socket)
      const duplex = new MessageDuplex(webSocket, { connection: socket, masking: 'none' })
      duplex.on('error', ignore) // its session has it too
      this.#events.connection(duplex, remoteOf(request.socket) ?? '', origin)
    })
  }

  #originOf(socket: Socket): Origin {
    return this.#options.addresses.of(remoteOf(socket))
  }

  /** What comes inside the WebSocket the client writes: it is no front's. */
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

/** As the WebSocket library of stock kas refuses (doc/reference/captured.md 1). */
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

/** One for all: made beside the request, each would keep that. */
function ignore(): void {}
