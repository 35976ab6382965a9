import { KasError } from '../../lib/errors.ts'
import { Blocks, kept } from './blocks.ts'
import { trailersFlag } from './body-trailers.ts'

/** Prefix of a message in gRPC: a flag and four bytes of length. */

export const prefixBytes = 5

export function framePrefix(messageBytes: number, flag = 0): Buffer {
  const prefix = Buffer.allocUnsafe(prefixBytes)
  writePrefix(prefix, messageBytes, flag)
  return prefix
}

/** Writes a prefix at the beginning of `into`. */
export function writePrefix(into: Buffer, messageBytes: number, flag = 0): void {
  into[0] = flag
  into.writeUInt32BE(messageBytes, 1)
}

type OnMessage = (message: Buffer, isPacked: boolean) => void

/** Cuts messages out of a byte stream. A message that came in one piece is a view of that piece, uncopied. */
export class Deframer {
  #maxMessageBytes: number
  readonly #encoding: () => string | undefined
  readonly #onTrailers: ((bytes: Uint8Array) => void) | undefined
  #hasTrailers = false
  #pieces: Buffer[] = []
  /** pieces after those of `#pieces` */
  #blocks: Blocks | undefined
  #bufferedBytes = 0
  /** size of the next frame; that of a prefix while it is unknown */
  #wanted = prefixBytes

  /**
   * @param encoding - returns `grpc-encoding` of the call, known with its headers; any but `gzip` refuses compressed
   *   messages
   * @param onTrailers - called with trailers in the body; absent: they are a fault
   */
  constructor(maxMessageBytes: number, encoding: () => string | undefined, onTrailers?: (bytes: Uint8Array) => void) {
    this.#maxMessageBytes = maxMessageBytes
    this.#encoding = encoding
    this.#onTrailers = onTrailers
  }

  /** Sets the bound of later messages. Must be called before the next one's prefix is read. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Bytes of the incomplete message. */
  get bufferedBytes(): number {
    return this.#bufferedBytes
  }

  /** Drops the incomplete message. */
  clear(): void {
    this.#pieces = []
    this.#blocks = undefined
    this.#bufferedBytes = 0
    this.#wanted = prefixBytes
  }

  /**
   * Adds a chunk, and passes on each complete message.
   *
   * @param onMessage - `isPacked`: compressed by gzip, and not unpacked
   * @throws KasError MESSAGE_TOO_LARGE, INVALID_MESSAGE
   */
  push(chunk: Buffer, onMessage: OnMessage): void {
    let at = 0
    while (this.#bufferedBytes + chunk.length - at >= this.#wanted) {
      if (this.#bufferedBytes === 0) {
        const end = at + prefixBytes + this.#messageBytes(chunk, at)
        this.#wanted = end - at
        if (chunk.length < end) break
        this.#wanted = prefixBytes
        this.#pass(chunk, at, end, onMessage)
        at = end
      } else {
        const used = this.#wanted - this.#bufferedBytes
        const bytes = this.#takeBuffered(chunk.subarray(at, at + used))
        at += used
        this.#wanted = prefixBytes + this.#messageBytes(bytes, 0)
        if (bytes.length < this.#wanted) {
          // only the prefix is here: keep it until the whole frame is
          this.#pieces.push(bytes)
          this.#bufferedBytes = bytes.length
        } else {
          this.#wanted = prefixBytes
          this.#pass(bytes, 0, bytes.length, onMessage)
        }
      }
    }
    if (at < chunk.length) this.#buffer(chunk.subarray(at))
  }

  /**
   * Length in the prefix at `at`.
   *
   * @throws KasError MESSAGE_TOO_LARGE
   */
  #messageBytes(bytes: Buffer, at: number): number {
    const messageBytes = bytes.readUInt32BE(at + 1)
    if (messageBytes > this.#maxMessageBytes) {
      throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: messageBytes, maxBytes: this.#maxMessageBytes })
    }
    return messageBytes
  }

  /**
   * Passes on the frame from `start` to `end`.
   *
   * @throws KasError INVALID_MESSAGE
   */
  #pass(bytes: Buffer, start: number, end: number, onMessage: OnMessage): void {
    if (this.#hasTrailers) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a frame behind the trailers' })
    const payload = bytes.subarray(start + prefixBytes, end)
    if (bytes[start] === trailersFlag && this.#onTrailers) {
      this.#hasTrailers = true
      this.#onTrailers(payload)
    } else onMessage(payload, this.#isPacked(bytes[start] as number))
  }

  #buffer(piece: Buffer): void {
    this.#bufferedBytes += piece.length
    this.#blocks ??= new Blocks((bytes) => this.#pieces.push(kept(bytes)))
    this.#blocks.add(piece)
  }

  /** Returns the buffered bytes and `rest` in one piece. */
  #takeBuffered(rest: Buffer): Buffer {
    this.#blocks?.flush()
    this.#pieces.push(rest)
    const bytes = Buffer.concat(this.#pieces, this.#wanted)
    this.#pieces = []
    this.#bufferedBytes = 0
    return bytes
  }

  /** @throws KasError INVALID_MESSAGE */
  #isPacked(flag: number): boolean {
    if (flag === 0) return false
    if (flag === 1 && this.#encoding() === 'gzip') return true
    const detail = flag === 1 ? 'compressed flag set without grpc-encoding gzip' : `frame flag ${flag}`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
}
