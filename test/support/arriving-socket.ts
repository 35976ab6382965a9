import { EventEmitter } from 'node:events'

/** The part of an accepted connection that counters of connections need. */
export function arrivingSocket(remoteAddress: string, remotePort: number) {
  const emitter = new EventEmitter()
  const socket = Object.assign(emitter, {
    remoteAddress,
    remotePort,
    destroyed: false,
    destroy: () => {
      socket.destroyed = true
      emitter.emit('close')
    },
  })
  return socket
}
