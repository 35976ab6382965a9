import type { EventFacts } from './event-facts.ts'

/** Bytes of an event that are read at most: API servers write metadata first, with up to 256 KiB of annotations. */
const maxReadBytes = 512 * 1024
/** Bytes of a name or value that are read at most. */
const maxTextBytes = 1024

const quote = 0x22
const backslash = 0x5c

/**
 * Reads the properties of a JSON event, whose object may be a resource, its metadata alone, or a Table. Reads only
 * names and values on the path to them, and builds no objects.
 *
 * @returns undefined: it is no event, or its type comes too late
 */
export function readJsonEvent(event: Uint8Array): EventFacts | undefined {
  const reading = new JsonReading(event.subarray(0, maxReadBytes))
  try {
    return reading.event()
  } catch (error) {
    if (error instanceof NoEvent) return undefined
    throw error
  }
}

class NoEvent extends Error {}

/** Characters that need no parsing: Go escapes &, < and > too. */
const plain = /^[\x20-\x5b\x5d-\x7e]*$/

function parse(quoted: string): string {
  try {
    return JSON.parse(quoted)
  } catch {
    throw new NoEvent()
  }
}

class JsonReading {
  readonly #bytes: Buffer
  #at = 0
  #type: string | undefined
  #resourceVersion: string | undefined
  #endsInitialEvents = false

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  event(): EventFacts | undefined {
    this.#members((name) => {
      if (name === 'type') this.#type = this.#text()
      else if (name === 'object') this.#object()
      else this.#skip()
      return this.#type !== undefined && this.#resourceVersion !== undefined
    })
    const [type, resourceVersion] = [this.#type, this.#resourceVersion]
    return type === undefined ? undefined : { type, resourceVersion, endsInitialEvents: this.#endsInitialEvents }
  }

  #object(): void {
    this.#members((name) => {
      if (name === 'metadata') this.#metadata()
      else this.#skip()
      return this.#resourceVersion !== undefined && this.#type !== undefined
    })
  }

  /** Reads the metadata. Annotations may follow the resourceVersion; only those of bookmarks matter. */
  #metadata(): void {
    this.#members((name) => {
      if (name === 'resourceVersion') this.#resourceVersion = this.#text()
      else if (name === 'annotations' && this.#type === 'BOOKMARK') this.#annotations()
      else this.#skip()
      return this.#resourceVersion !== undefined && this.#type !== undefined && this.#type !== 'BOOKMARK'
    })
  }

  #annotations(): void {
    this.#members((name) => {
      if (name === 'k8s.io/initial-events-end') this.#endsInitialEvents = this.#text() === 'true'
      else this.#skip()
      return false
    })
  }

  /** @param read - reads the value of a member; returns true if that was enough */
  #members(read: (name: string | undefined) => boolean): void {
    if (this.#next() !== 0x7b) throw new NoEvent()
    this.#at++
    if (this.#next() === 0x7d) {
      this.#at++
      return
    }
    for (;;) {
      const name = this.#text()
      if (this.#next() !== 0x3a) throw new NoEvent()
      this.#at++
      if (read(name)) return
      const byte = this.#next()
      this.#at++
      if (byte === 0x7d) return
      if (byte !== 0x2c) throw new NoEvent()
    }
  }

  /** @returns undefined: it is longer than any text that matters, or no text */
  #text(): string | undefined {
    if (this.#next() !== quote) {
      this.#skip()
      return undefined
    }
    const from = this.#at
    this.#string()
    if (this.#at - from - 2 > maxTextBytes) return undefined
    const text = this.#bytes.toString('latin1', from + 1, this.#at - 1)
    return plain.test(text) ? text : parse(this.#bytes.toString('utf8', from, this.#at))
  }

  #skip(): void {
    let depth = 0
    do {
      const byte = this.#next()
      if (byte === quote) this.#string()
      else {
        this.#at++
        if (byte === 0x7b || byte === 0x5b) depth++
        else if (byte === 0x7d || byte === 0x5d) depth--
        else if (depth === 0) this.#word()
      }
    } while (depth > 0)
    if (depth < 0) throw new NoEvent()
  }

  /** Skips the rest of a number, or of true, false, null. */
  #word(): void {
    for (let byte = this.#bytes[this.#at]; byte !== undefined && isOfWord(byte); byte = this.#bytes[this.#at])
      this.#at++
  }

  /** Skips a string, from its first quote to behind its last. */
  #string(): void {
    for (let end = this.#bytes.indexOf(quote, this.#at + 1); end >= 0; end = this.#bytes.indexOf(quote, end + 1)) {
      let slashes = 0
      while (this.#bytes[end - 1 - slashes] === backslash) slashes++
      if (slashes % 2 === 1) continue
      this.#at = end + 1
      return
    }
    throw new NoEvent()
  }

  /** Returns the next byte that is no space. */
  #next(): number {
    for (;;) {
      const byte = this.#bytes[this.#at]
      if (byte === undefined) throw new NoEvent()
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte
      this.#at++
    }
  }
}

function isOfWord(byte: number): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2b ||
    byte === 0x2d ||
    byte === 0x2e ||
    byte === 0x45
  )
}
