import { gunzip } from 'node:zlib'
import { KasError } from '../../lib/errors.ts'
import { gunzipAtOnce, isTooLongUnpacked } from '../../lib/gunzip-at-once.ts'
import { Turns } from '../../lib/turns.ts'
import { maxUnpackedBytes, unpackedAtOnceBytes } from './limits.ts'

/** Threads for unpacking, out of Node's four for such work: they also resolve names and read files. */
export const maxUnpackingAtOnce = 2

/** Turns for unpacking in other threads, shared by all connections: payers take them one after another. */
export type UnpackTurns = Turns<object>

/** Makes turns without a bound of waits, because each connection waits once at most. */
export const unpackTurns = (): UnpackTurns => new Turns({ maxRunning: maxUnpackingAtOnce })

/**
 * Unpacks the messages of one connection, each when its reader takes it, because a few bytes may unpack to megabytes.
 * Small messages are unpacked at once. Large ones are unpacked in another thread, one at a time, in turn with other
 * connections. They wait while the connection's unpacked bytes that readers have not passed on would exceed
 * `maxUnpackedBytes`. So a connection that sends many waits for itself.
 */
export class Unpacker {
  readonly #maxMessageBytes: number
  /** bytes of large messages that their readers have */
  #unpackedBytes = 0
  #running = false
  readonly #turns: UnpackTurns
  #payer: object = this
  /** reader that waits for the connection's turn, and the controller that ends the wait */
  #asking: { readonly reader: object; readonly left: AbortController } | undefined
  /** waits by reader, first in, first out; undefined: there was none yet */
  #waiting: Map<object, PromiseWithResolvers<void>> | undefined

  /** @param turns - shared with other connections; absent: this one is alone */
  constructor(options: { maxMessageBytes: number }, turns = unpackTurns()) {
    this.#maxMessageBytes = options.maxMessageBytes
    this.#turns = turns
  }

  /** Sets the owner of the connection: all connections of one payer share one payer's turns. */
  chargeTo(payer: object): void {
    if (this.#payer === this) this.#payer = payer
  }

  /**
   * @returns undefined: the message is not small, see `unpack`
   * @throws KasError INVALID_MESSAGE
   */
  unpackSmall(packed: Buffer): Buffer | undefined {
    try {
      return gunzipAtOnce(packed, unpackedAtOnceBytes)
    } catch (cause) {
      throw unreadable(cause)
    }
  }

  /**
   * Unpacks a large message. The caller returns its bytes with `release`.
   *
   * @param reader - waits for one message at a time, and may `leave`
   * @throws KasError MESSAGE_TOO_LARGE, INVALID_MESSAGE; CANCELLED once the reader has left
   */
  async unpack(packed: Buffer, reader: object, maxBytes = this.#maxMessageBytes): Promise<Buffer> {
    if (this.#running || this.#isFull) {
      const turn = Promise.withResolvers<void>()
      this.#waiting ??= new Map()
      this.#waiting.set(reader, turn)
      await turn.promise
    }
    this.#running = true
    try {
      const message = await this.#unpackInTurn(packed, reader, maxBytes)
      this.#unpackedBytes += message.length
      return message
    } finally {
      this.#running = false
      this.#next()
    }
  }

  async #unpackInTurn(packed: Buffer, reader: object, maxBytes: number): Promise<Buffer> {
    const left = new AbortController()
    this.#asking = { reader, left }
    const unpack = () => {
      this.#asking = undefined
      return gunzipWithin(packed, maxBytes)
    }
    try {
      return await this.#turns.run(this.#payer, left.signal, unpack)
    } finally {
      this.#asking = undefined
    }
  }

  /** Ends the reader's wait. */
  leave(reader: object): void {
    if (this.#asking?.reader === reader) this.#asking.left.abort(new KasError({ code: 'CANCELLED' }))
    const turn = this.#waiting?.get(reader)
    this.#waiting?.delete(reader)
    turn?.reject(new KasError({ code: 'CANCELLED' }))
  }

  release(bytes: number): void {
    this.#unpackedBytes -= bytes
    this.#next()
  }

  get #isFull(): boolean {
    return this.#unpackedBytes > 0 && this.#unpackedBytes + this.#maxMessageBytes > maxUnpackedBytes
  }

  #next(): void {
    if (this.#running || this.#isFull || !this.#waiting) return
    const [first] = this.#waiting
    if (!first) return
    const [reader, turn] = first
    this.#waiting.delete(reader)
    this.#running = true // the reader has the turn before it goes on
    turn.resolve()
  }
}

function gunzipWithin(packed: Buffer, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    gunzip(packed, { maxOutputLength: maxBytes }, (cause, message) => {
      if (!cause) resolve(message)
      else if (!isTooLongUnpacked(cause)) reject(unreadable(cause))
      else reject(new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: maxBytes + 1, maxBytes }, { cause }))
    })
  })
}

function unreadable(cause: unknown): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: 'gzip data cannot be read' }, { cause })
}
