import { KasError } from '../../lib/errors.ts'

/**
 * The parts of protobuf's encoding that each call needs, written by hand: generated code costs several times more per
 * message. All other messages use the generated code.
 */

const initialScratchBytes = 16 * 1024
/** highest number that protobuf gives to fields */
const maxFieldNumber = 2 ** 29 - 1

/**
 * Writes a message from its end to its start, so that each length is known when it is written. All writes share one
 * buffer, so nothing here is re-entrant.
 */
export class BackwardWriter {
  #buffer = Buffer.allocUnsafeSlow(initialScratchBytes)
  #at = initialScratchBytes

  /** Begins a message, and drops the rest of an encoding that threw. */
  begin(): this {
    this.#at = this.#buffer.length
    return this
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#buffer.length - this.#at
  }

  #room(bytes: number): number {
    if (bytes > this.#at) {
      const grown = Buffer.allocUnsafeSlow(this.#buffer.length * 2 + bytes)
      const start = grown.length - this.length
      this.#buffer.copy(grown, start, this.#at)
      this.#at = start
      this.#buffer = grown
    }
    this.#at -= bytes
    return this.#at
  }

  bytes(value: Uint8Array): void {
    const at = this.#room(value.length) // first, since it may replace the buffer
    this.#buffer.set(value, at)
  }

  utf8(value: string): void {
    const length = Buffer.byteLength(value)
    const at = this.#room(length)
    this.#buffer.write(value, at, length, 'utf8')
  }

  latin1(value: string): void {
    const at = this.#room(value.length)
    this.#buffer.write(value, at, value.length, 'latin1')
  }

  varint(value: number): void {
    const length = varintLength(value)
    const at = this.#room(length)
    writeVarint(this.#buffer, at, value)
  }

  /** Ends a length-delimited field that began when `length` was `from`. */
  close(field: number, from: number): void {
    this.varint(this.length - from)
    this.varint((field << 3) | 2)
  }

  /** Returns the message, and empties the writer. */
  take(): Uint8Array {
    const out = Buffer.allocUnsafe(this.length)
    this.#buffer.copy(out, 0, this.#at)
    this.#at = this.#buffer.length
    return out
  }
}

export function varintLength(value: number): number {
  let length = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) length++
  return length
}

/** @returns the offset after the value */
export function writeVarint(into: Uint8Array, at: number, value: number): number {
  let rest = value
  let offset = at
  while (rest >= 128) {
    into[offset++] = (rest % 128) | 128
    rest = Math.floor(rest / 128)
  }
  into[offset++] = rest
  return offset
}

/**
 * Returns the head of a `{ <outer>: { 1: <payload> } }` message, the form of all data messages of this protocol. The
 * payload follows it, uncopied.
 */
export function payloadHead(outerField: number, payloadBytes: number): Uint8Array {
  // an empty payload is a default value, which is left out
  if (payloadBytes === 0) return Uint8Array.of((outerField << 3) | 2, 0)
  const inner = 1 + varintLength(payloadBytes)
  const head = Buffer.allocUnsafe(1 + varintLength(inner + payloadBytes) + inner)
  head[0] = (outerField << 3) | 2
  const at = writeVarint(head, 1, inner + payloadBytes)
  head[at] = 0x0a
  writeVarint(head, at + 1, payloadBytes)
  return head
}

/** Reads fields one after another: `while (reader.next()) switch (reader.field) ...`; unread values are skipped. */
export class Reader {
  /** bytes of the message */
  readonly length: number
  readonly #buffer: Buffer
  #at: number
  readonly #end: number
  field = 0
  /** wire type: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32 */
  type = 0
  #valueAt = 0
  #valueEnd = 0
  #varint = 0

  /** @param message - only the part from `start` to `end` is read */
  constructor(message: Uint8Array, start = 0, end = message.length) {
    this.#buffer = Buffer.isBuffer(message)
      ? message
      : Buffer.from(message.buffer, message.byteOffset, message.byteLength)
    this.#at = start
    this.length = end - start
    this.#end = end
  }

  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.#readVarint()
    this.field = Math.floor(tag / 8)
    this.type = tag & 7
    this.#valueAt = this.#at
    if (this.type === 0) this.#varint = this.#readVarint()
    else if (this.type === 2) {
      const length = this.#readVarint()
      if (length < 0) throw malformed('negative length') // or reading would go back, and round for ever
      this.#valueAt = this.#at
      this.#at += length
    } else if (this.type === 1) this.#at += 8
    else if (this.type === 5) this.#at += 4
    else throw malformed(`wire type ${this.type}`)
    if (this.field < 1 || this.field > maxFieldNumber) throw malformed(`field number ${this.field}`)
    if (this.#at > this.#end) throw malformed('cut short')
    this.#valueEnd = this.#at
    return true
  }

  /** Exact up to 2^53; two's complement for negative int64. */
  get int(): number {
    this.#expect(0)
    return this.#varint
  }

  get bytes(): Buffer {
    this.#expect(2)
    return this.#buffer.subarray(this.#valueAt, this.#valueEnd)
  }

  get latin1(): string {
    this.#expect(2)
    return this.#buffer.toString('latin1', this.#valueAt, this.#valueEnd)
  }

  get utf8(): string {
    this.#expect(2)
    return this.#buffer.toString('utf8', this.#valueAt, this.#valueEnd)
  }

  /** Reader of a sub-message, without a view of its bytes. */
  get message(): Reader {
    this.#expect(2)
    return new Reader(this.#buffer, this.#valueAt, this.#valueEnd)
  }

  #expect(type: number): void {
    if (this.type !== type) throw malformed(`field ${this.field} has wire type ${this.type}, not ${type}`)
  }

  #readVarint(): number {
    const from = this.#at
    let value = 0
    let scale = 1
    for (let i = 0; i < 10; i++) {
      if (this.#at >= this.#end) throw malformed('cut short')
      const byte = this.#buffer[this.#at++] as number
      value += (byte & 127) * scale
      if (byte < 128) return i < 9 ? value : negative(this.#buffer.subarray(from, this.#at))
      scale *= 128
    }
    throw malformed('varint over 10 bytes')
  }
}

/** Decodes a varint of ten bytes: a negative int64. */
function negative(bytes: Uint8Array): number {
  const value = bytes.reduceRight((sum, byte) => (sum << 7n) | BigInt(byte & 127), 0n)
  return Number(BigInt.asIntN(64, value))
}

function malformed(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `malformed message: ${detail}` })
}

/**
 * Returns the bytes of a sub-message as received, with unknown fields and in their order; `undefined`: it is absent.
 *
 * @throws KasError INVALID_MESSAGE if `message` is malformed
 * @see doc/reference/tunnel-protocol.md 1.19
 */
export function fieldBytes(message: Uint8Array, fieldNo: number): Uint8Array | undefined {
  const found: Uint8Array[] = []
  const reader = new Reader(message)
  while (reader.next()) if (reader.field === fieldNo) found.push(reader.bytes)
  // parts of one sub-message are concatenated; a copy, because a kept one in Node's pool would keep 8 KiB
  return found.length === 0 ? undefined : Uint8Array.from(Buffer.concat(found))
}

/**
 * Counts a field in a message, before objects are built for it.
 *
 * @throws KasError INVALID_MESSAGE if `message` is malformed
 */
export function countField(message: Uint8Array, fieldNo: number): number {
  let count = 0
  const reader = new Reader(message)
  while (reader.next()) if (reader.field === fieldNo) count++
  return count
}
