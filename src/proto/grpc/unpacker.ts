import { gunzip } from 'node:zlib'
import { KasError } from '../../lib/errors.ts'
import { gunzipAtOnce, isTooLongUnpacked } from '../../lib/gunzip-at-once.ts'
import { maxUnpackedBytes, unpackedAtOnceBytes } from './limits.ts'
import { UnpackTurns } from './unpack-turns.ts'

/**
 * Unpacks the messages of one connection, each when its reader takes it: a few bytes may stand for megabytes. Small
 * ones are unpacked where they stand; large ones beside the event loop, one at a time, in turn with other connections,
 * and only as long as those that their readers have not handed on are within `maxUnpackedBytes`: a connection that sends
 * many waits for itself.
 */
export class Unpacker {
  readonly #maxMessageBytes: number
  /** large ones that their readers have */
  #unpackedBytes = 0
  #running = false
  readonly #turns: UnpackTurns
  #payer: object = this
  /** who waits for the turn of the connection */
  #asking: object | undefined
  /** first in, first out, by who reads; undefined: nobody has waited yet */
  #waiting: Map<object, PromiseWithResolvers<void>> | undefined

  /** @param turns - with other connections; absent: it is alone */
  constructor(options: { maxMessageBytes: number }, turns = new UnpackTurns()) {
    this.#maxMessageBytes = options.maxMessageBytes
    this.#turns = turns
  }

  /** Whose connection it is: all those of one payer have a turn where another's one has. */
  chargeTo(payer: object): void {
    if (this.#payer === this) this.#payer = payer
  }

  /**
   * @returns undefined for one that is not small: see `unpack`
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
   * The caller gives back, by `release`, what the message takes.
   *
   * @param reader - who waits for one at a time, and may `leave`
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
    this.#asking = reader
    try {
      await this.#turns.enter(this, this.#payer)
    } finally {
      this.#asking = undefined
    }
    try {
      return await gunzipWithin(packed, maxBytes)
    } finally {
      this.#turns.done()
    }
  }

  /** What the reader waits for is not wanted any more. */
  leave(reader: object): void {
    if (this.#asking === reader) this.#turns.leave(this)
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
    this.#running = true // its turn, also before it goes on
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
