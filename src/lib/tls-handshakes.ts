import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import { HandshakeTurns } from './handshake-turns.ts'
import { remoteOf } from './host-port.ts'
import { type SourceHistory, sourceOf } from './source-history.ts'

/**
 * Connections of a server on which TLS is not agreed yet. node ends none of them: that `handshakeTimeout` has passed it
 * only reports, and a server that closes waits for a peer that is silent, and takes one that is late.
 */
export class TlsHandshakes {
  /** by their far end */
  readonly #sockets = new Map<string, Socket>()

  /**
   * @param server - whose every connection is seen from here on, and begins in its turn
   * @param firstBytesMs - until one that says nothing is reported as a handshake that takes too long
   */
  constructor(server: Server, firstBytesMs: number, sources: HandshakeSources = {}) {
    beginInTurns(server, firstBytesMs, new HandshakeTurns(sources.history), sources)
    server.on('connection', (socket: Socket) => {
      const remote = remoteOf(socket)
      if (remote === undefined) return // of a Unix socket: its time-out has to do
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

  /** Ends them now. What is connected by TLS stays. */
  destroy(): void {
    for (const socket of this.#sockets.values()) socket.destroy()
  }
}

/** Undefined: a Unix socket, or it has left. */
export type AddressOf = (socket: Socket) => string | undefined

export interface HandshakeSources {
  /** whose a connection is; absent: of who has connected */
  readonly addressOf?: AddressOf | undefined
  /** absent: nobody else knows who was let in */
  readonly history?: SourceHistory | undefined
  /** A connection has spoken and waits for its turn. @returns to be called once that has come */
  readonly waits?: ((socket: Socket) => () => void) | undefined
}

const remoteAddressOf: AddressOf = ({ remoteAddress }) => remoteAddress

/**
 * Begins TLS in turns on connections that have spoken. Their bytes wait in the socket. A connection whose ClientHello was
 * read holds no turn, whether it goes on or not. One that says nothing costs nothing, until it is reported as node
 * reports handshakes that take too long.
 *
 * @param server - whose listeners of `connection` are node's own yet; those that come later get each at once
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
