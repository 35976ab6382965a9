import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import { networkOf, remoteOf } from './host-port.ts'
import { LoopTurns } from './loop-turns.ts'

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
   * @param addressOf - as of `beginInTurns`
   */
  constructor(server: Server, firstBytesMs: number, addressOf?: AddressOf) {
    beginInTurns(server, firstBytesMs, addressOf)
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

/** A handshake takes the event loop about a ms. */
const begunPerTurn = 2
/**
 * From one turn to the next: without a rest strangers who come again and again take all of a core. It leaves 400
 * handshakes a second, whose first calls take a replica longer than that. ms
 */
export const restMs = 5
/** What a server takes at the most is bounded by itself, and lower. */
const maxWaiting = 20_000

/** Undefined: a Unix socket, or it has left. */
export type AddressOf = (socket: Socket) => string | undefined

const remoteAddressOf: AddressOf = ({ remoteAddress }) => remoteAddress

/**
 * Of connections that have spoken TLS begins in turns, one address after another (of IPv6: one network after another).
 * What they send meanwhile waits in the socket. One that says nothing costs nothing, until it is reported as node
 * reports handshakes that take too long.
 *
 * @param server - whose listeners of `connection` are node's own yet; those that come later get each at once
 * @param firstBytesMs - from a connection's start to its first bytes
 * @param addressOf - whose a connection is; absent: of who has connected
 */
export function beginInTurns(server: Server, firstBytesMs: number, addressOf: AddressOf = remoteAddressOf): void {
  const turns = new LoopTurns(begunPerTurn, maxWaiting, restMs)
  const listeners = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  server.removeAllListeners('connection')
  server.on('connection', (socket) => {
    const source = networkOf(addressOf(socket) ?? '')
    let leave: (() => void) | undefined
    const silence = setTimeout(() => server.emit('tlsClientError', timedOut(), socket), firstBytesMs)
    const end = () => {
      clearTimeout(silence)
      leave?.()
    }
    const begin = () => {
      socket.off('close', end)
      if (socket.destroyed) return // there was no room for it
      socket.off('error', ignore)
      for (const listener of listeners) listener.call(server, socket)
    }
    socket.on('error', ignore).once('close', end)
    socket.once('readable', () => {
      clearTimeout(silence)
      if (socket.readableLength > 0) leave = turns.enter(source, begin, () => socket.destroy())
      else socket.destroy() // it has ended
    })
  })
}

function timedOut(): Error {
  return Object.assign(new Error('no TLS came in time'), { code: 'ERR_TLS_HANDSHAKE_TIMEOUT' })
}

function ignore(): void {} // its 'close' follows
