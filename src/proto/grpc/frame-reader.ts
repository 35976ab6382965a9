import { applyMask } from './masks.ts'

/** Either side's limit for one frame (doc/reference/tunnel-protocol.md 2.2). bytes */
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
const maxHeadBytes = 14

/** A frame that cannot be, or is not wanted. */
export class FrameFault extends Error {
  readonly closeCode: number

  constructor(closeCode: number, message: string) {
    super(message)
    this.closeCode = closeCode
  }
}

export interface FrameEvents {
  /** The next bytes of binary messages: a view of what was read, unmasked where it lies. */
  payload(bytes: Buffer): void
  /** The next bytes of control frames, heads too, in memory of their own. */
  control(bytes: Buffer): void
}

/**
 * Reads the frames of a WebSocket whose messages are one byte stream (RFC 6455 5.2). It keeps nothing but a head that is
 * not whole: what a frame carries is passed on as it comes, however long the frame is, or its message.
 */
export class FrameReader {
  readonly #events: FrameEvents
  /** whether the other side is a client */
  readonly #masked: boolean
  readonly #head = new Uint8Array(maxHeadBytes)
  #headBytes = 0
  #opcode = continuation
  /** of the frame, not passed on yet */
  #left = 0
  /** of the frame, passed on */
  #passed = 0
  /** undefined: its bytes are as they are */
  #mask: Uint8Array | undefined
  /** a message has begun and not ended */
  #inMessage = false
  #closed = false

  constructor(events: FrameEvents, { masked }: { masked: boolean }) {
    this.#events = events
    this.#masked = masked
  }

  /** What follows the frame Close is dropped. @throws FrameFault, after which it is not called again */
  read(chunk: Buffer): void {
    for (let at = 0; at < chunk.length && !this.#closed; ) {
      if (this.#left > 0) {
        const end = Math.min(chunk.length, at + this.#left)
        this.#pass(end - at === chunk.length ? chunk : chunk.subarray(at, end))
        at = end
      } else {
        this.#head[this.#headBytes++] = chunk[at++] as number
        if (this.#headBytes === headBytes(this.#head, this.#headBytes)) this.#begin()
      }
    }
  }

  get #isControl(): boolean {
    return this.#opcode >= firstControl
  }

  /** The head of a frame is whole. */
  #begin(): void {
    const head = this.#head.subarray(0, this.#headBytes)
    this.#headBytes = 0
    const [flags, second] = head as unknown as [number, number]
    const maskBytes = second & masked ? 4 : 0
    this.#opcode = flags & opcodeBits
    this.#left = payloadBytes(head)
    this.#passed = 0
    const mask = head.slice(head.length - maskBytes)
    if (this.#isControl) this.#events.control(Buffer.from(head))
    else {
      this.#check(flags, maskBytes > 0)
      this.#inMessage = (flags & final) === 0
      this.#mask = mask.some((byte) => byte !== 0) ? mask : undefined
    }
    this.#end()
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

  #pass(bytes: Buffer): void {
    this.#left -= bytes.length
    if (this.#isControl) this.#events.control(Buffer.from(bytes))
    else {
      if (this.#mask) applyMask(bytes, this.#mask, this.#passed)
      this.#passed += bytes.length
      this.#events.payload(bytes)
    }
    this.#end()
  }

  #end(): void {
    if (this.#left === 0 && this.#opcode === close) this.#closed = true
  }
}

/** Of the head that begins so; 2 while its second byte is not known. */
function headBytes(head: Uint8Array, known: number): number {
  if (known < 2) return 2
  const second = head[1] as number
  const lengthBytes = [2, 8][(second & 0x7f) - 126] ?? 0
  return 2 + lengthBytes + (second & masked ? 4 : 0)
}

function payloadBytes(head: Uint8Array): number {
  const short = (head[1] as number) & 0x7f
  if (short < 126) return short
  let length = 0
  for (const byte of head.subarray(2, short === 126 ? 4 : 10)) length = length * 256 + byte
  return length
}
