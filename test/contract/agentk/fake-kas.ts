import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer as createTlsServer } from 'node:tls'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import type { Metadata } from '../../../src/call/call.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import { type ServerSession, serveSession } from '../../../src/proto/grpc/server-session.ts'
import type { Handler, ServerStream } from '../../../src/proto/grpc/server-stream.ts'
import { WebSocketDuplex } from '../../../src/proto/grpc/websocket-duplex.ts'
import {
  type ConnectRequest,
  connectMethod,
  connectRequestOrder,
  decodeConnectRequest,
  encodeConnectResponse,
  reusedConnectRequestOrder,
} from '../../../src/proto/reverse-tunnel.ts'
import { MessageOrder } from '../../../src/proto/wire/message-order.ts'
import { listen } from './api-server.ts'

/** The side of kas of one Connect stream. */
export class KasTunnel {
  readonly stream: ServerStream
  #order: MessageOrder
  readonly #reuse: boolean
  readonly #messages: AsyncIterator<Uint8Array>
  readonly ended = Promise.withResolvers<Metadata | undefined>()

  constructor(stream: ServerStream, reuse: boolean) {
    this.stream = stream
    this.#reuse = reuse
    this.#order = this.#newOrder()
    this.#messages = stream.messages[Symbol.asyncIterator]()
  }

  /**
   * Returns the next message, checked against the order of doc/reference/tunnel-protocol.md 1.2; undefined: half-close.
   */
  async next(): Promise<ConnectRequest | undefined> {
    const { value, done } = await this.#messages.next()
    if (done) {
      this.#order.accept('EOF')
      return undefined
    }
    const message = decodeConnectRequest(value)
    this.#order.accept(message.kind)
    if (message.kind === 'descriptor' && this.#order.last === 'descriptor') {
      this.#order = this.#newOrder()
      this.#order.accept('descriptor')
    }
    return message
  }

  #newOrder(): MessageOrder {
    return new MessageOrder(this.#reuse ? reusedConnectRequestOrder : connectRequestOrder)
  }

  begin(method: string, meta: Metadata = {}): void {
    void this.stream.send(encodeConnectResponse.requestInfo(method, meta))
  }

  message(data: Uint8Array): void {
    void this.stream.send(data, encodeConnectResponse.messageHead(data.length))
  }

  closeSend(): void {
    void this.stream.send(encodeConnectResponse.closeSend())
  }

  /** Ends Connect with OK. */
  end(): void {
    this.ended.resolve(undefined)
  }

  fail(error: KasError): void {
    this.ended.reject(error)
  }
}

/** A minimal kas for agents: the test gets the tunnels and sets handlers for other methods. */
export class FakeKas {
  readonly sessions: ServerSession[] = []
  readonly handlers = new Map<string, Handler>()
  readonly idle: KasTunnel[] = []
  connects = 0
  /** metadata of each Connect answer from now on; undefined: none, as a stock kas does */
  hints: Metadata | undefined
  /** metadata that agents sent with each Connect */
  readonly told: Metadata[] = []
  /** functions that close the servers of `listenAs` */
  readonly onClose: (() => void)[] = []
  readonly #waiting: ((tunnel: KasTunnel) => void)[] = []
  /** true if a tunnel may carry one call after another */
  readonly #reuse: boolean

  constructor({ reuse = false } = {}) {
    this.#reuse = reuse
  }

  readonly serve = (duplex: Duplex): ServerSession => {
    const session = serveSession(duplex, (method) =>
      method === connectMethod ? this.#connect : this.handlers.get(method),
    )
    this.sessions.push(session)
    session.onLeaving(() => {
      for (const tunnel of this.idle.filter(({ stream }) => stream.session === session)) tunnel.end()
    })
    return session
  }

  /** Returns the next tunnel that has announced itself, oldest first. */
  take(): Promise<KasTunnel> {
    const tunnel = this.idle.shift()
    return tunnel ? Promise.resolve(tunnel) : new Promise((resolve) => this.#waiting.push(resolve))
  }

  /** Stops listening and cuts all connections. */
  close(): void {
    for (const close of this.onClose.splice(0)) close()
  }

  readonly #connect: Handler = async (stream) => {
    this.connects += 1
    this.told.push(stream.metadata)
    const tunnel = new KasTunnel(stream, this.#reuse)
    await tunnel.next()
    if (this.hints) stream.sendMetadata(this.hints)
    const waiting = this.#waiting.shift()
    if (waiting) waiting(tunnel)
    else this.idle.push(tunnel)
    stream.signal.addEventListener('abort', () => {
      tunnel.ended.reject(stream.signal.reason)
    })
    try {
      await tunnel.ended.promise
    } finally {
      if (this.idle.includes(tunnel)) this.idle.splice(this.idle.indexOf(tunnel), 1)
    }
  }
}

/** Listens in one of the forms of kas. @returns the port */
export async function listenAs(
  t: Test,
  kas: FakeKas,
  form: 'grpc' | 'grpcs' | 'ws' | 'wss',
  options: { cert?: string; key?: string; onUpgrade?: (request: import('node:http').IncomingMessage) => void } = {},
): Promise<number> {
  const sockets = new Set<Socket>()
  const track = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  }
  const tls = { cert: options.cert, key: options.key }
  const { server, close } = form.startsWith('ws')
    ? webSocketServer(kas, tls, form === 'wss', options.onUpgrade)
    : plain(kas, tls, form)
  server.on('connection', track)
  const port = await listen(server)
  kas.onClose.push(() => {
    for (const socket of sockets) socket.destroy()
    close()
  })
  t.teardown(() => kas.close())
  return port
}

function plain(kas: FakeKas, tls: object, form: string) {
  const server =
    form === 'grpcs'
      ? createTlsServer({ ...tls, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => void kas.serve(socket))
      : createServer((socket) => void kas.serve(socket))
  return { server, close: () => void server.close() }
}

function webSocketServer(
  kas: FakeKas,
  tls: object,
  secure: boolean,
  onUpgrade?: (request: import('node:http').IncomingMessage) => void,
) {
  const http = createHttpServer()
  const webSockets = new WebSocketServer({ server: http, perMessageDeflate: false })
  webSockets.on('connection', (ws, request) => {
    onUpgrade?.(request)
    kas.serve(new WebSocketDuplex(ws, { connection: request.socket, masking: 'none' }))
  })
  if (!secure) return { server: http, close: () => void http.close() }
  const server = createTlsServer({ ...tls, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
    if (socket.alpnProtocol) socket.destroy(new Error('wss agents offer no ALPN'))
    else http.emit('connection', socket)
  })
  return { server, close: () => void server.close() }
}
