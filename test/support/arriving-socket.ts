import { EventEmitter } from 'node:events'

/** As much of a connection that has come as what counts them asks of it. */
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
