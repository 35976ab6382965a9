import type { Socket } from 'node:net'
import type { Server } from 'node:tls'

/**
 * Connections of a server on which TLS is not agreed yet. node ends none of them: that `handshakeTimeout` has passed it
 * only tells, and a server that closes waits for a peer that is silent, and takes one that is late.
 */
export class TlsHandshakes {
  /** by remote address and port: what speaks TLS is another object */
  readonly #sockets = new Map<string, Socket>()

  /** @param server - whose every connection is seen from here on */
  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      const peer = peerOf(socket)
      if (peer === undefined) return // of a Unix socket: its time-out has to do
      this.#sockets.set(peer, socket)
      socket.once('close', () => {
        if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer)
      })
    })
    server.on('secureConnection', (socket) => this.#sockets.delete(peerOf(socket) ?? ''))
    server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
      if (error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT') socket.destroy()
    })
  }

  /** Ends them now. What is connected by TLS stays. */
  destroy(): void {
    for (const socket of this.#sockets.values()) socket.destroy()
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remotePort === undefined ? undefined : `${remoteAddress} ${remotePort}`
}
