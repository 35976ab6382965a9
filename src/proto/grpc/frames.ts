import { KasError } from '../../lib/errors.ts'
import { Blocks, kept } from './blocks.ts'
import { trailersFlag } from './body-trailers.ts'

/** gRPC's framing of messages: a flag, four bytes of length, the message. */

export const prefixBytes = 5

export function framePrefix(messageBytes: number, flag = 0): Buffer {
  const prefix = Buffer.allocUnsafe(prefixBytes)
  prefix[0] = flag
  prefix.writeUInt32BE(messageBytes, 1)
  return prefix
}

/**
 * Cuts messages out of a byte stream. A message that came in one piece is a view of that piece, uncopied.
 */
export class Deframer {
  #maxMessageBytes: number
  readonly #encoding: () => string | undefined
  readonly #onTrailers: ((bytes: Uint8Array) => void) | undefined
  #hasTrailers = false
  #pieces: Buffer[] = []
  /** behind all of `#pieces` */
  #blocks: Blocks | undefined
  #held = 0
  /** bytes that the next frame takes; its prefix while that is unknown */
  #wanted = prefixBytes

  /**
   * @param encoding - `grpc-encoding` of the call, known with its headers; all but `gzip` refuses compressed messages
   * @param onTrailers - takes trailers in the body; without it they are a fault
   */
  constructor(maxMessageBytes: number, encoding: () => string | undefined, onTrailers?: (bytes: Uint8Array) => void) {
    this.#maxMessageBytes = maxMessageBytes
    this.#encoding = encoding
    this.#onTrailers = onTrailers
  }

  /** Of messages from here on; the next one's prefix has not been read. */
  limit(maxMessageBytes: number): void {
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Bytes of a message that has begun and not ended. */
  get heldBytes(): number {
    return this.#held
  }

  /** What is not whole is not wanted any more. */
  clear(): void {
    this.#pieces = []
    this.#blocks = undefined
    this.#held = 0
    this.#wanted = prefixBytes
  }

  /**
   * @param onMessage - `isPacked`: by gzip, as it came
   * @throws KasError MESSAGE_TOO_LARGE, INVALID_MESSAGE
   */
  push(chunk: Buffer, onMessage: (message: Buffer, isPacked: boolean) => void): void {
    let rest = chunk
    while (this.#held + rest.length >= this.#wanted) {
      const frame = this.#take(rest)
      rest = rest.subarray(frame.used)
      const messageBytes = frame.bytes.readUInt32BE(1)
      if (messageBytes > this.#maxMessageBytes) {
        throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: messageBytes, maxBytes: this.#maxMessageBytes })
      }
      if (frame.bytes.length < prefixBytes + messageBytes) {
        // only the prefix was wanted so far: put it back and ask for the whole
        this.#wanted = prefixBytes + messageBytes
        this.#pieces.push(frame.bytes)
        this.#held = frame.bytes.length
        continue
      }
      this.#wanted = prefixBytes
      if (this.#hasTrailers) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a frame behind the trailers' })
      if (frame.bytes[0] === trailersFlag && this.#onTrailers) {
        this.#hasTrailers = true
        this.#onTrailers(frame.bytes.subarray(prefixBytes))
      } else onMessage(frame.bytes.subarray(prefixBytes), this.#isPacked(frame.bytes[0] as number))
    }
    if (rest.length > 0) this.#hold(rest)
  }

  #hold(piece: Buffer): void {
    this.#held += piece.length
    this.#blocks ??= new Blocks((bytes) => this.#pieces.push(kept(bytes)))
    this.#blocks.add(piece)
  }

  /** The next `wanted` bytes, or the whole frame if `chunk` alone holds it. */
  #take(chunk: Buffer): { bytes: Buffer; used: number } {
    if (this.#held === 0) {
      let size = this.#wanted
      if (size === prefixBytes) {
        const whole = prefixBytes + chunk.readUInt32BE(1)
        if (chunk.length >= whole) size = whole
      }
      return { bytes: chunk.subarray(0, size), used: size }
    }
    const used = this.#wanted - this.#held
    this.#blocks?.flush()
    this.#pieces.push(chunk.subarray(0, used))
    const bytes = Buffer.concat(this.#pieces, this.#wanted)
    this.#pieces = []
    this.#held = 0
    return { bytes, used }
  }

  /** @throws KasError INVALID_MESSAGE */
  #isPacked(flag: number): boolean {
    if (flag === 0) return false
    if (flag === 1 && this.#encoding() === 'gzip') return true
    const detail = flag === 1 ? 'compressed flag set without grpc-encoding gzip' : `frame flag ${flag}`
    throw new KasError({ code: 'INVALID_MESSAGE', detail })
  }
}
