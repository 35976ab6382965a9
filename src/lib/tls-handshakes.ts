import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import { HandshakeTurns } from './handshake-turns.ts'
import { remoteOf } from './host-port.ts'
import { type SourceHistory, sourceOf } from './source-history.ts'

/**
 * Connections of a server without a complete TLS handshake. Node ends none of them: it only reports that
 * `handshakeTimeout` has passed. A closing server waits for a peer that sends nothing, and accepts one that is late.
 */
export class TlsHandshakes {
  /** by remote address and port */
  readonly #sockets = new Map<string, Socket>()

  /**
   * @param server - all connections that come from now on begin TLS in their turn
   * @param firstBytesMs - time after which a connection without a byte is reported as a handshake that takes too long
   */
  constructor(server: Server, firstBytesMs: number, sources: HandshakeSources = {}) {
    beginInTurns(server, firstBytesMs, new HandshakeTurns(sources.history), sources)
    server.on('connection', (socket: Socket) => {
      const remote = remoteOf(socket)
      if (remote === undefined) return // a Unix socket has only its own time-out
      this.#sockets.set(remote, socket)
      socket.once('close', () => {
        if (this.#sockets.get(remote) === socket) this.#sockets.delete(remote)
      })
    })
    server.on('secureConnection', (socket) => this.#sockets.delete(remoteOf(socket) ?? ''))
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') socket.destroy()
    })
  }

  /** Destroys these connections now. Connections with TLS stay. */
  destroy(): void {
    for (const socket of this.#sockets.values()) socket.destroy()
  }
}

/** Undefined: a Unix socket, or the client has left. */
export type AddressOf = (socket: Socket) => string | undefined

export interface HandshakeSources {
  /** address of the client; absent: that of the connection */
  readonly addressOf?: AddressOf | undefined
  /** absent: no other server shares the record of clients that were let in */
  readonly history?: SourceHistory | undefined
  /**
   * called for a connection that has sent bytes and waits for its turn. @returns function to call once the turn has
   * come
   */
  readonly waits?: ((socket: Socket) => () => void) | undefined
}

const remoteAddressOf: AddressOf = ({ remoteAddress }) => remoteAddress

/**
 * Begins TLS in turns on connections that have sent bytes. Their bytes wait in the socket. The turn of a connection
 * ends once its ClientHello is read, whether it goes on or not. A connection without a byte costs nothing. After
 * `firstBytesMs` it is reported as Node reports handshakes that take too long.
 *
 * @param server - has only Node's listeners of `connection` yet; later listeners get each connection at once
 * @param firstBytesMs - from a connection's start to its first bytes
 */
export function beginInTurns(
  server: Server,
  firstBytesMs: number,
  turns: Pick<HandshakeTurns, 'enter'>,
  { addressOf = remoteAddressOf, waits }: Pick<HandshakeSources, 'addressOf' | 'waits'> = {},
): void {
  const listeners = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  server.removeAllListeners('connection')
  server.on('connection', (socket) => {
    const source = sourceOf(addressOf(socket) ?? '')
    let leave: (() => void) | undefined
    let hasTurn: (() => void) | undefined
    const silence = setTimeout(() => server.emit('tlsClientError', timedOut(), socket), firstBytesMs)
    const end = () => {
      clearTimeout(silence)
      leave?.()
    }
    const begin = () => {
      socket.off('close', end)
      if (socket.destroyed) return // there was no room for it
      socket.off('error', ignore)
      hasTurn?.()
      for (const listener of listeners) listener.call(server, socket)
    }
    socket.on('error', ignore).once('close', end)
    socket.once('readable', () => {
      clearTimeout(silence)
      if (socket.readableLength === 0) return void socket.destroy() // it has ended
      hasTurn = waits?.(socket)
      leave = turns.enter({ ...source, begin, lost: () => socket.destroy() })
    })
  })
}

function timedOut(): Error {
  return Object.assign(new Error('no TLS came in time'), { code: 'ERR_TLS_HANDSHAKE_TIMEOUT' })
}

function ignore(): void {} // its 'close' follows
