import type { Socket } from 'node:net'
import type { Server } from 'node:tls'
import { networkOf } from './host-port.ts'
import { LoopTurns } from './loop-turns.ts'

/** A handshake takes the event loop about a ms. */
const begunPerTurn = 2
/** What a server takes at the most is bounded by itself, and lower. */
const maxWaiting = 20_000

/**
 * Of connections that come at once TLS begins in turns, one address after another (of IPv6: one network after another).
 * What they send meanwhile waits in the socket.
 *
 * @param server - whose listeners of `connection` are node's own yet; those that come later hear of each at once
 */
export function beginInTurns(server: Server): void {
  const turns = new LoopTurns(begunPerTurn, maxWaiting)
  const begin = server.listeners('connection') as ((this: Server, socket: Socket) => void)[]
  server.removeAllListeners('connection')
  server.on('connection', (socket) => {
    const source = socket.remoteAddress === undefined ? '' : networkOf(socket.remoteAddress)
    let leave: (() => void) | undefined
    const onTurn = () => {
      if (leave) socket.off('close', leave)
      if (socket.destroyed) return // there was no room for it
      for (const listener of begin) listener.call(server, socket)
    }
    leave = turns.enter(source, onTurn, () => socket.destroy())
    if (leave) socket.once('close', leave)
  })
}
