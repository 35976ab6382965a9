import type { Socket } from 'node:net'
import { monotonicClock } from './clock.ts'
import type { Rate } from './rate-limit.ts'
import { SharedRate } from './shared-rate.ts'

export interface LingerBounds {
  /** time for the client to close. ms */
  readonly ms: number
  /** bytes of the client that are read and dropped. A client that sends more has another second. */
  readonly bytes: number
}

/** Bounds for an unknown client. Its request head of 1 MiB may be on its way. */
export const strangersLingering: LingerBounds = { ms: 1000, bytes: 2 * 1024 * 1024 }

/** Time for a client that sends too much to receive the data already sent. ms */
const fullMs = 1000

/** Rate of bytes that are read and dropped, of all connections: some percent of a core with TLS. Addresses share it. */
const dropRate: Rate = { perSecond: 16 * 1024 * 1024, burst: 4 * 1024 * 1024 }
const dropped = new SharedRate(monotonicClock, dropRate)

/**
 * Sends the rest of a connection and its end, and closes once the client has closed (RFC 9112, 9.6). Meanwhile it drops
 * the client's bytes. Otherwise the system answers them with a reset, and the client loses data that it has not
 * received.
 */
export class Lingering {
  readonly #socket: Socket
  #ms: number
  #leftBytes: number
  #timer: NodeJS.Timeout | undefined
  readonly #address: string

  /** @param isPatient - true: the time begins once all data is sent */
  constructor(socket: Socket, { ms, bytes }: LingerBounds, isPatient = false) {
    this.#socket = socket
    this.#ms = ms
    this.#leftBytes = bytes
    this.#address = socket.remoteAddress ?? ''
    if (socket.destroyed) return
    socket.removeAllListeners('data').on('data', this.#drop).resume()
    socket.once('close', () => clearTimeout(this.#timer))
    socket.end()
    if (!isPatient || socket.writableFinished) this.#start()
    else socket.once('finish', () => this.#start())
  }

  /** Lowers the time that is left to this. ms */
  hurry(ms: number): void {
    if (ms >= this.#ms) return
    this.#ms = ms
    if (this.#timer) this.#start()
  }

  #start(): void {
    clearTimeout(this.#timer)
    if (!this.#socket.destroyed) this.#timer = setTimeout(() => this.#socket.destroy(), this.#ms)
  }

  readonly #drop = (chunk: Buffer): void => {
    this.#leftBytes -= chunk.length
    if (this.#leftBytes < 0) {
      this.#socket.pause()
      this.hurry(fullMs)
      return
    }
    dropped.take(this.#address, chunk.length)
    const waitMs = dropped.msUntilPaid(this.#address)
    if (waitMs === 0 || this.#socket.isPaused()) return
    this.#socket.pause()
    monotonicClock.after(waitMs, () => this.#leftBytes >= 0 && this.#socket.resume())
  }
}
