import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  STATUS_CODES,
} from 'node:http'
import { createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { type WebSocket, WebSocketServer } from 'ws'
import type { CertificateFiles } from '../../../lib/certificate-files.ts'
import { MessageDuplex, type MessageSocket } from '../../../proto/grpc/message-duplex.ts'

/**
 * One port for gRPC and for gRPC inside a WebSocket, plain or TLS: told apart by the first bytes after TLS, replayed
 * to whom they are for (wire-protocol 2.2).
 */

export interface ListenerOptions {
  /** the Server header of HTTP answers */
  readonly product: string
  readonly certificate?: CertificateFiles
  /** WebSocket too; else HTTP/2 alone */
  readonly websocket: boolean
  /** from a connection's start to its first 24 bytes, and to its last upgrade header. ms */
  readonly firstBytesTimeoutMs: number
}

const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const subProtocol = 'ws-tunnel'
const maxWebSocketMessageBytes = 10 * 1024 * 1024
const protocolError = 1002
const shuttingDown = 1001

/** What was accepted: bytes that begin with the HTTP/2 preface. */
export type OnConnection = (duplex: Duplex, remoteAddress: string) => void

export class Listener {
  readonly server: Server
  readonly #http: HttpServer
  readonly #webSockets: WebSocketServer
  /** connections that have not become HTTP/2 yet, and what ends each if it takes too long */
  readonly #undecided = new Map<Socket, NodeJS.Timeout>()
  readonly #options: ListenerOptions
  readonly #onConnection: OnConnection
  readonly #onError: (error: unknown) => void

  /** @param onError - a connection that failed before it was one: a TLS handshake, a wrong first byte */
  constructor(options: ListenerOptions, onConnection: OnConnection, onError: (error: unknown) => void) {
    this.#options = options
    this.#onConnection = onConnection
    this.#onError = onError
    this.#http = this.#createHttp()
    this.#webSockets = new WebSocketServer({
      noServer: true,
      perMessageDeflate: false,
      maxPayload: maxWebSocketMessageBytes,
      handleProtocols: (offered) => (offered.has(subProtocol) ? subProtocol : false),
    })
    this.#webSockets.on('headers', (headers) => headers.push(`Server: ${options.product}`))
    this.server = this.#createServer()
  }

  /** Connections that have not become HTTP/2 yet are ended. */
  closeUndecided(): void {
    for (const socket of this.#undecided.keys()) socket.destroy()
  }

  #createServer(): Server {
    const accept = (socket: Socket) => this.#accept(socket)
    const { certificate, websocket, firstBytesTimeoutMs } = this.#options
    if (!certificate) return createServer({ noDelay: true }, accept)
    const ALPNProtocols = websocket ? ['h2', 'http/1.1'] : ['h2']
    const server = createTlsServer(
      { ...certificate.current, ALPNProtocols, handshakeTimeout: firstBytesTimeoutMs },
      (socket: TLSSocket) => accept(socket.setNoDelay(true)),
    )
    certificate.onChange((next) => server.setSecureContext(next))
    server.on('tlsClientError', (error) => this.#onError(error))
    return server
  }

  #accept(socket: Socket): void {
    // node's own time-outs need a server that listens, which the HTTP server here does not
    this.#undecided.set(
      socket,
      setTimeout(() => socket.destroy(), this.#options.firstBytesTimeoutMs),
    )
    const onError = (error: unknown) => this.#onError(error)
    socket.on('error', onError)
    socket.once('close', () => this.#decided(socket))
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
        this.#onConnection(socket, addressOf(socket))
      } else if (this.#options.websocket) this.#http.emit('connection', socket)
      else socket.destroy()
    }
    socket.on('readable', onReadable)
  }

  #decided(socket: Socket): void {
    clearTimeout(this.#undecided.get(socket))
    this.#undecided.delete(socket)
  }

  #createHttp(): HttpServer {
    const http = createHttpServer({
      keepAliveTimeout: 1,
    })
    http.on('request', (request, response) => {
      const status = request.method === 'GET' ? 426 : 405
      const text =
        status === 426
          ? 'This is where agents connect: a WebSocket upgrade with sub-protocol ws-tunnel, or gRPC, is expected\n'
          : 'method not allowed\n'
      const headers = status === 426 ? { connection: 'Upgrade', upgrade: 'websocket' } : { allow: 'GET' }
      response.writeHead(status, {
        ...headers,
        'content-type': 'text/plain; charset=utf-8',
        server: this.#options.product,
      })
      response.end(text)
    })
    http.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
    http.on('clientError', (error, socket) => {
      this.#onError(error)
      if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
      else socket.destroy()
    })
    return http
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const refusal = refusalOf(request)
    if (refusal) {
      this.#refuse(socket, refusal)
      return
    }
    this.#webSockets.handleUpgrade(request, socket, head, (webSocket) => {
      if (webSocket.protocol !== subProtocol) {
        webSocket.on('error', this.#onError)
        webSocket.close(protocolError, `expecting "${subProtocol}" subprotocol, got "${webSocket.protocol}"`)
        return
      }
      this.#decided(request.socket)
      this.#serveWebSocket(webSocket, addressOf(request.socket))
    })
  }

  #serveWebSocket(webSocket: WebSocket, remoteAddress: string): void {
    this.#onConnection(new MessageDuplex(webSocket as unknown as MessageSocket), remoteAddress)
  }

  #refuse(socket: Duplex, { status, text }: Refusal): void {
    const body = `${text}\n`
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nServer: ${this.#options.product}\r\nConnection: close\r\n` +
        `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  }
}

export { shuttingDown }

interface Refusal {
  readonly status: number
  readonly text: string
}

/** As the WebSocket library of stock kas refuses (captured 1). */
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

function addressOf(socket: Socket): string {
  return `${socket.remoteAddress ?? ''}:${socket.remotePort ?? ''}`
}
