import { gunzip } from 'node:zlib'
import { KasError } from '../../lib/errors.ts'
import { gunzipAtOnce, isTooLongUnpacked } from '../../lib/gunzip-at-once.ts'
import { Turns } from '../../lib/turns.ts'
import { maxUnpackedBytes, unpackedAtOnceBytes } from './limits.ts'

/** Of the four threads that node has for such work: names are resolved and files are read there too. */
export const maxUnpackingAtOnce = 2

/** Who unpacks beside the event loop, over all connections that share it: they take turns by who pays. */
export type UnpackTurns = Turns<object>

/** A connection waits once at the most, so that there is room for all. */
export const unpackTurns = (): UnpackTurns => new Turns({ maxRunning: maxUnpackingAtOnce })

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
  /** who waits for the turn of the connection, and what ends that */
  #asking: { readonly reader: object; readonly left: AbortController } | undefined
  /** first in, first out, by who reads; undefined: nobody has waited yet */
  #waiting: Map<object, PromiseWithResolvers<void>> | undefined

  /** @param turns - with other connections; absent: it is alone */
  constructor(options: { maxMessageBytes: number }, turns = unpackTurns()) {
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

  /** What the reader waits for is not wanted any more. */
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
