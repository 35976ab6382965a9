import { applyMask } from './masks.ts'

/** Bound of one frame, on both sides (doc/reference/tunnel-protocol.md 2.2). bytes */
export const maxWebSocketMessageBytes = 10 * 1024 * 1024

/** of RFC 6455 7.4.1 */
const protocolError = 1002
const unsupportedData = 1003
const messageTooBig = 1009

/** of RFC 6455 5.2 */
const final = 0x80
const reserved = 0x70
const opcodeBits = 0x0f
const continuation = 0
const text = 1
const binary = 2
const firstControl = 8
const close = 8
const masked = 0x80
const leastHeadBytes = 2
/** longest head of a frame, with eight bytes of length and a mask */
const maxHeadBytes = 14
const keyBytes = 4

/** Size up to which payloads of one chunk are joined: a copy costs less than an event, or a waiting buffer. */
const movedBytes = 4096

/** A frame that is invalid or not accepted. */
export class FrameFault extends Error {
  readonly closeCode: number

  constructor(closeCode: number, message: string) {
    super(message)
    this.closeCode = closeCode
  }
}

export interface FrameEvents {
  /** called for the next bytes of binary messages: a view of the chunk, unmasked and joined in place */
  payload(bytes: Buffer): void
  /**
   * called for the next bytes of control frames, with heads, copied. Payload before them in the chunk may come later.
   */
  control(bytes: Buffer): void
}

/**
 * Reads the frames of a WebSocket whose messages are one byte stream (RFC 6455 5.2). It keeps only incomplete heads.
 * Payload is passed on as it comes, however long its frame or message is.
 */
export class FrameReader {
  readonly #events: FrameEvents
  /** True if the other side is a client. */
  readonly #masked: boolean
  readonly #head = new Uint8Array(maxHeadBytes)
  #headBytes = 0
  /** length of the head; exact once its second byte is known */
  #wholeHeadBytes = leastHeadBytes
  #opcode = continuation
  /** bytes of the frame that are not passed on yet */
  #left = 0
  /** bytes of the frame that are passed on */
  #passed = 0
  readonly #key = new Uint8Array(keyBytes)
  /** False: the frame's bytes are not masked, or by a key of zero. */
  #isMasked = false
  /** True if a message has begun and not ended. */
  #inMessage = false
  #closed = false

  constructor(events: FrameEvents, { masked }: { masked: boolean }) {
    this.#events = events
    this.#masked = masked
  }

  /**
   * Reads a chunk. Bytes behind the frame Close are dropped.
   *
   * @throws FrameFault, after which it must not be called again
   */
  read(chunk: Buffer): void {
    const pass = (from: number, to: number) => {
      if (from < to) this.#events.payload(to - from === chunk.length ? chunk : chunk.subarray(from, to))
    }
    let [from, to] = [0, 0] // the joined part, not passed on yet
    for (let at = 0; at < chunk.length && !this.#closed; ) {
      if (this.#left === 0) {
        at = this.#readHead(chunk, at)
        continue
      }
      const end = Math.min(chunk.length, at + this.#left)
      if (this.#isControl) this.#events.control(Buffer.from(chunk.subarray(at, end)))
      else {
        if (this.#isMasked) applyMask(chunk.subarray(at, end), this.#key, this.#passed)
        if (from === to || end - at > movedBytes) {
          pass(from, to)
          from = at
          to = end
        } else {
          chunk.copyWithin(to, at, end)
          to += end - at
        }
      }
      this.#left -= end - at
      this.#passed += end - at
      at = end
      this.#end()
    }
    pass(from, to)
  }

  get #isControl(): boolean {
    return this.#opcode >= firstControl
  }

  /** @returns place of the head's end in the chunk, or the chunk's end */
  #readHead(chunk: Buffer, start: number): number {
    for (let at = start; at < chunk.length; ) {
      const byte = chunk[at++] as number
      this.#head[this.#headBytes++] = byte
      if (this.#headBytes === leastHeadBytes) this.#wholeHeadBytes = headBytes(byte)
      if (this.#headBytes < this.#wholeHeadBytes) continue
      this.#begin(this.#headBytes)
      return at
    }
    return chunk.length
  }

  /** Begins a frame, whose head is complete. */
  #begin(bytes: number): void {
    this.#headBytes = 0
    this.#wholeHeadBytes = leastHeadBytes
    const head = this.#head
    const [flags, second] = [head[0] as number, head[1] as number]
    this.#opcode = flags & opcodeBits
    this.#left = payloadBytes(head)
    this.#passed = 0
    if (this.#isControl) this.#events.control(Buffer.from(head.subarray(0, bytes)))
    else {
      this.#check(flags, (second & masked) !== 0)
      this.#inMessage = (flags & final) === 0
      this.#isMasked = (second & masked) !== 0 && this.#takeKey(bytes - keyBytes)
    }
    this.#end()
  }

  /** @returns true: the key changes the bytes */
  #takeKey(at: number): boolean {
    let any = 0
    for (let i = 0; i < keyBytes; i++) {
      const byte = this.#head[at + i] as number
      this.#key[i] = byte
      any |= byte
    }
    return any !== 0
  }

  #check(flags: number, isMasked: boolean): void {
    if (flags & reserved) throw new FrameFault(protocolError, 'a reserved bit is set')
    if (isMasked !== this.#masked) throw new FrameFault(protocolError, 'a frame is masked by the wrong side')
    if (this.#opcode === text) throw new FrameFault(unsupportedData, 'text message')
    if (this.#opcode !== (this.#inMessage ? continuation : binary)) {
      throw new FrameFault(protocolError, `a frame of opcode ${this.#opcode} out of its order`)
    }
    if (this.#left > maxWebSocketMessageBytes) throw new FrameFault(messageTooBig, `a frame of ${this.#left} bytes`)
  }

  #end(): void {
    if (this.#left === 0 && this.#opcode === close) this.#closed = true
  }
}

/** @param second - second byte of the head */
function headBytes(second: number): number {
  const short = second & 0x7f
  const lengthBytes = short < 126 ? 0 : short === 126 ? 2 : 8
  return leastHeadBytes + lengthBytes + (second & masked ? keyBytes : 0)
}

function payloadBytes(head: Uint8Array): number {
  const short = (head[1] as number) & 0x7f
  if (short < 126) return short
  const end = short === 126 ? 4 : 10
  let length = 0
  for (let i = leastHeadBytes; i < end; i++) length = length * 256 + (head[i] as number)
  return length
}
