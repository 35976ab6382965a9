/** Frames of the server in a WebSocket between a client and a cluster (RFC 6455, 5). */

/** Bytes of a reason that fit into a close frame (RFC 6455, 5.5). */
const maxReasonBytes = 123
/** Longest head: with eight bytes of length and a mask. */
const maxHeadBytes = 14
const isFinal = 0x80
const isMasked = 0x80
const isControl = 0x08
export const opcodes = { binary: 2, close: 8 } as const

/** Finds the ends of a server's messages, after which another message may follow. */
export class MessageBoundaries {
  readonly #head = Buffer.alloc(maxHeadBytes)
  #headBytes = 0
  /** remaining bytes of the payload; undefined: the frame's head is incomplete */
  #left: number | undefined
  /** more frames of the message follow */
  #isFragmented = false
  /** a close frame has passed: nothing may follow */
  #isClosed = false

  /** Must see each byte once, in order. @returns end of the message that contains `from`; -1: not in this chunk */
  endOf(chunk: Uint8Array, from: number): number {
    let at = from
    while (at < chunk.length) {
      if (this.#left === undefined) {
        this.#head[this.#headBytes++] = chunk[at++] as number
        if (this.#headBytes < this.#neededBytes) continue
        this.#left = this.#payloadBytes
      }
      const passed = Math.min(this.#left, chunk.length - at)
      this.#left -= passed
      at += passed
      if (this.#left > 0) return -1
      if (this.#ended()) return at
    }
    return -1
  }

  get #neededBytes(): number {
    if (this.#headBytes < 2) return 2
    const second = this.#head[1] as number
    const short = second & 0x7f
    return 2 + (short === 127 ? 8 : short === 126 ? 2 : 0) + (second & isMasked ? 4 : 0)
  }

  get #payloadBytes(): number {
    const short = (this.#head[1] as number) & 0x7f
    if (short === 126) return this.#head.readUInt16BE(2)
    return short === 127 ? Number(this.#head.readBigUInt64BE(2)) : short
  }

  /** @returns true: the message ends with this frame */
  #ended(): boolean {
    const first = this.#head[0] as number
    this.#headBytes = 0
    this.#left = undefined
    if ((first & 0x0f) === opcodes.close) this.#isClosed = true
    if (!(first & isControl)) this.#isFragmented = !(first & isFinal)
    return !this.#isFragmented && !this.#isClosed
  }
}

/** Encodes a message in one frame. */
export function serverFrame(opcode: number, payload: Uint8Array): Buffer {
  const { length } = payload
  const head = Buffer.alloc(length > 0xffff ? 10 : length > 125 ? 4 : 2)
  head[0] = isFinal | opcode
  head[1] = length > 0xffff ? 127 : length > 125 ? 126 : length
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

/** @param code - close code of RFC 6455, 7.4.1 */
export function closeFrame(code: number, reason: string): Buffer {
  const payload = Buffer.alloc(2)
  payload.writeUInt16BE(code)
  return serverFrame(opcodes.close, Buffer.concat([payload, Buffer.from(closeReason(reason))]))
}

/** Cuts a reason so that it fits into the frame. */
export function closeReason(reason: string): string {
  const fits = Buffer.byteLength(reason) <= maxReasonBytes
  return fits ? reason : reason.replace(/[^\x20-\x7e]/g, '?').slice(0, maxReasonBytes)
}
