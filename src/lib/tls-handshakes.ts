import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import { remoteOf } from './remote-of.ts'
import { type AddressOf, beginInTurns } from './tls-turns.ts'

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
