import type { Socket } from 'node:net'
import { KasError } from '../../../lib/errors.ts'
import type { Exchange } from './exchange.ts'

/** Requests that a client may have sent on one connection without an answer yet. */
export const maxPipelinedRequests = 64

/**
 * One client's connection and what runs on it. Its end is noticed here, once: neither requests nor responses of node
 * tell of it reliably when they are pipelined.
 */
export class Connection {
  readonly socket: Socket
  readonly exchanges = new Set<Exchange>()
  /** its parser has failed: no other request will come */
  broken = false
  /** close it once nothing runs on it */
  closeWhenIdle = false

  constructor(socket: Socket) {
    this.socket = socket
    socket.once('close', () => {
      for (const exchange of this.exchanges) exchange.leave(new KasError({ code: 'CANCELLED' }))
      this.exchanges.clear()
    })
  }

  add(exchange: Exchange): void {
    this.exchanges.add(exchange)
  }

  delete(exchange: Exchange): void {
    this.exchanges.delete(exchange)
    this.closeIfIdle()
  }

  /** What was written is still sent. */
  closeIfIdle(): void {
    if (this.closeWhenIdle && this.exchanges.size === 0) this.socket.destroySoon()
  }
}
