import type { Socket } from 'node:net'

export interface LingerBounds {
  /** for the client to close. ms */
  readonly ms: number
  /** bytes of the client that are read and dropped. A client that sends more has another second. */
  readonly bytes: number
}

/** Bounds for a client that nobody knows. Its head of 1 MiB may be on its way. */
export const strangersLingering: LingerBounds = { ms: 1000, bytes: 2 * 1024 * 1024 }

/** Time for a client that sends too much to take what was sent. ms */
const fullMs = 1000

/**
 * Sends what is left on a connection, then its end, and closes once the client has closed (RFC 9112, 9.6). The client's bytes
 * are dropped meanwhile. The system answers bytes for a closed connection with a reset, and the client loses what it has not
 * received.
 */
export class Lingering {
  readonly #socket: Socket
  #ms: number
  #leftBytes: number
  #timer: NodeJS.Timeout | undefined

  /** @param isPatient - the time begins once the client has taken all that kas holds */
  constructor(socket: Socket, { ms, bytes }: LingerBounds, isPatient = false) {
    this.#socket = socket
    this.#ms = ms
    this.#leftBytes = bytes
    if (socket.destroyed) return
    socket.removeAllListeners('data').on('data', this.#drop).resume()
    socket.once('close', () => clearTimeout(this.#timer))
    socket.end()
    if (!isPatient || socket.writableFinished) this.#start()
    else socket.once('finish', () => this.#start())
  }

  /** Has no more time than this from now on. */
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
    if (this.#leftBytes >= 0) return
    this.#socket.pause()
    this.hurry(fullMs)
  }
}
