import type { Socket } from 'node:net'
import type { Clock } from '../../../../lib/clock.ts'

/** Decisions of the owner of a connection on how it is read. */
export interface PiecesOptions {
  readonly clock: Pick<Clock, 'after'>
  /** bound of the next piece; 0: none until `goOn`. bytes */
  readonly nextBytes: () => number
  /** Called before each piece. Returns the pause until then; 0: none. ms */
  readonly pauseMs: () => number
}

/**
 * Gives a socket's bytes to its parser in pieces. A read brings 64 KiB at once. That may be 10,000 chunks of a body, for
 * which the parser takes 10 ms. One read of the socket waits at the most, because node reads no more
 * before.
 */
export class PiecewiseReads {
  readonly #socket: Socket
  readonly #options: PiecesOptions
  readonly #push: Socket['push']
  /** bytes that the socket has read and the parser has not; null: the end */
  readonly #waiting: (Buffer | null)[] = []
  #isPassing = false
  #isStopped = false
  /** ends the pause; undefined: there is none */
  #cancel: (() => void) | undefined

  constructor(socket: Socket, options: PiecesOptions) {
    this.#socket = socket
    this.#options = options
    this.#push = socket.push
    socket.push = (bytes: Buffer | null) => this.#take(bytes)
    const read = socket._read
    socket._read = (size) => {
      if (this.#waiting.length === 0) read.call(socket, size)
    }
    socket.on('resume', this.goOn)
    socket.once('close', () => this.#cancel?.())
  }

  /** Passes what waits, as far as the options let it. */
  readonly goOn = (): void => {
    if (this.#isPassing || this.#cancel) return
    this.#isPassing = true
    try {
      while (this.#passNext());
    } finally {
      this.#isPassing = false
    }
  }

  /** Passes all at once from now on: a parser no longer reads it. */
  stop(): void {
    this.#isStopped = true
    this.#cancel?.()
    this.#cancel = undefined
    this.#socket.off('resume', this.goOn)
    this.goOn()
  }

  #take(bytes: Buffer | null): boolean {
    if (this.#waiting.length === 0 && this.#isStopped) return this.#push.call(this.#socket, bytes)
    this.#waiting.push(bytes)
    this.goOn()
    return this.#waiting.length === 0 && this.#socket.readableLength < this.#socket.readableHighWaterMark
  }

  /** @returns false: no more passes now */
  #passNext(): boolean {
    const [next] = this.#waiting
    if (next === undefined || this.#socket.destroyed) return false
    if (this.#isStopped || next === null) {
      this.#waiting.shift()
      this.#push.call(this.#socket, next)
      return true
    }
    const most = this.#socket.isPaused() ? 0 : this.#options.nextBytes()
    if (most === 0 || this.#mustPause()) return false
    if (next.length > most) this.#waiting[0] = next.subarray(most)
    else this.#waiting.shift()
    this.#push.call(this.#socket, next.subarray(0, most))
    return true
  }

  #mustPause(): boolean {
    const { clock, pauseMs } = this.#options
    const ms = pauseMs()
    if (ms === 0) return false
    this.#cancel = clock.after(ms, () => {
      this.#cancel = undefined
      this.goOn()
    })
    return true
  }
}
