import { setImmediate } from 'node:timers/promises'

/**
 * Bound of the levels of one value. Values of Kubernetes have a few dozen. JSON.parse takes seconds for millions of
 * them, which fit into the bytes that a caller may send.
 */
export const maxJsonDepth = 1000

/** Bound of a `type`: those of Kubernetes have at most eight bytes. */
const maxTypeBytes = 64

const quote = 0x22
const backslash = 0x5c
const objectKind = 1
const arrayKind = 2

/** Bytes that are scanned before other work has its turn: some milliseconds. */
const bytesPerTurn = 128 * 1024

/**
 * Returns the `type` of an event, if `bytes` are one JSON object that has one. The scan builds nothing, takes time in
 * proportion to the bytes, and pauses for other work. Names at the top, and the type, are read as written: Kubernetes
 * escapes none of them.
 */
export async function scanEvent(bytes: Uint8Array): Promise<string | undefined> {
  return (await scanned(bytes)).type
}

/** True if `bytes` are one JSON object, so that text can be written around it. Scans as `scanEvent` does. */
export async function isOneObject(bytes: Uint8Array): Promise<boolean> {
  return (await scanned(bytes)).isObject
}

async function scanned(bytes: Uint8Array): Promise<ObjectScan> {
  const scan = new ObjectScan(bytes)
  for (let until = bytesPerTurn; scan.continueTo(until); until += bytesPerTurn) await setImmediate()
  return scan
}

class ObjectScan {
  readonly #bytes: Uint8Array
  /** kind of each level: object or array */
  readonly #kinds = new Uint8Array(maxJsonDepth + 1)
  #depth = 0
  #at = 0
  #valid = true
  #type: string | undefined

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#skipSpace()
    if (bytes[this.#at] === 0x7b) this.#step()
    else this.#valid = false
  }

  /** @returns true: there is more to scan */
  continueTo(until: number): boolean {
    while (this.#valid && this.#depth > 0) {
      if (this.#at >= until) return true
      this.#step()
    }
    this.#skipSpace()
    return false
  }

  get isObject(): boolean {
    return this.#valid && this.#at === this.#bytes.length
  }

  /** Undefined: the bytes are no event. */
  get type(): string | undefined {
    return this.isObject ? this.#type : undefined
  }

  /** Scans one value, or the beginning of one, and the text behind it up to the next. */
  #step(): void {
    const byte = this.#bytes[this.#at]
    if (byte === 0x7b) this.#open(objectKind, 0x7d)
    else if (byte === 0x5b) this.#open(arrayKind, 0x5d)
    else {
      this.#scalar(byte)
      this.#afterValue()
    }
  }

  #open(kind: number, closing: number): void {
    if (this.#depth >= maxJsonDepth) {
      this.#valid = false
      return
    }
    this.#kinds[++this.#depth] = kind
    this.#at++
    this.#skipSpace()
    if (this.#bytes[this.#at] === closing) this.#close()
    else if (kind === objectKind) this.#key()
  }

  #close(): void {
    this.#at++
    this.#depth--
    this.#afterValue()
  }

  /** Moves to the next value, past all ends that follow. */
  #afterValue(): void {
    while (this.#valid && this.#depth > 0) {
      this.#skipSpace()
      const byte = this.#bytes[this.#at]
      const kind = this.#kinds[this.#depth]
      if (byte === 0x2c) {
        this.#at++
        this.#skipSpace()
        if (kind === objectKind) this.#key()
        return
      }
      if (byte !== (kind === objectKind ? 0x7d : 0x5d)) this.#valid = false
      this.#at++
      this.#depth--
    }
  }

  #key(): void {
    const from = this.#at
    this.#string()
    const isTop = this.#depth === 1
    const name = isTop ? this.#text(from + 1, this.#at - 1, maxTypeBytes) : undefined
    if (name?.includes('\\')) this.#valid = false
    this.#skipSpace()
    if (this.#bytes[this.#at] !== 0x3a) this.#valid = false
    this.#at++
    this.#skipSpace()
    if (name === 'type') this.#readType()
  }

  /** Reads the type. The last one counts, as with JSON.parse. */
  #readType(): void {
    const from = this.#at
    this.#type = undefined
    if (this.#bytes[from] !== quote) return
    this.#string()
    const type = this.#text(from + 1, this.#at - 1, maxTypeBytes)
    this.#type = type?.includes('\\') ? undefined : type
    this.#at = from // it is read again as a value
  }

  /** Returns undefined if the text is longer. */
  #text(from: number, to: number, maxBytes: number): string | undefined {
    return to - from > maxBytes ? undefined : Buffer.from(this.#bytes.subarray(from, to)).toString('utf8')
  }

  #scalar(byte: number | undefined): void {
    if (byte === quote) this.#string()
    else if (byte === 0x74) this.#word('true')
    else if (byte === 0x66) this.#word('false')
    else if (byte === 0x6e) this.#word('null')
    else this.#number()
  }

  #word(word: string): void {
    for (let i = 0; i < word.length; i++) if (this.#bytes[this.#at + i] !== word.charCodeAt(i)) this.#valid = false
    this.#at += word.length
  }

  #string(): void {
    const bytes = this.#bytes
    if (bytes[this.#at] !== quote) {
      this.#valid = false
      return
    }
    for (let at = this.#at + 1; at < bytes.length; at++) {
      const byte = bytes[at] as number
      if (byte === quote) {
        this.#at = at + 1
        return
      }
      if (byte < 0x20) break
      if (byte !== backslash) continue
      const length = escapeLength(bytes, at + 1)
      if (length === 0) break
      at += length
    }
    this.#valid = false
  }

  #number(): void {
    if (this.#bytes[this.#at] === 0x2d) this.#at++
    if (this.#bytes[this.#at] === 0x30) this.#at++
    else this.#digits()
    if (this.#bytes[this.#at] === 0x2e) {
      this.#at++
      this.#digits()
    }
    if (((this.#bytes[this.#at] ?? 0) | 0x20) !== 0x65) return
    this.#at++
    const sign = this.#bytes[this.#at]
    if (sign === 0x2b || sign === 0x2d) this.#at++
    this.#digits()
  }

  /** Reads digits, at least one. */
  #digits(): void {
    const bytes = this.#bytes
    let at = this.#at
    while (isDigit(bytes[at])) at++
    if (at === this.#at) this.#valid = false
    this.#at = at
  }

  #skipSpace(): void {
    const bytes = this.#bytes
    let at = this.#at
    while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++
    this.#at = at
  }
}

/** Length of an escape after its backslash; 0: it is no escape. */
function escapeLength(bytes: Uint8Array, at: number): number {
  const byte = bytes[at] ?? 0
  if (byte !== 0x75) return '"\\/bfnrt'.includes(String.fromCharCode(byte)) ? 1 : 0
  for (let i = 1; i <= 4; i++) if (!isHex(bytes[at + i])) return 0
  return 5
}

function isDigit(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39
}

function isHex(byte = 0): boolean {
  const lower = byte | 0x20
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66)
}
