/** The fields that are read from an event that is too large to be kept. */
export interface LargeEvent {
  /** `ADDED`, `MODIFIED`, `DELETED` */
  readonly type: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

const wanted: ReadonlySet<string> = new Set([
  'type',
  'object.metadata.namespace',
  'object.metadata.name',
  'object.metadata.uid',
])
/** depth of the longest path */
const maxDepth = 3
/** Limit of a text's bytes; the wanted fields are shorter. */
const maxTextBytes = 1024
const [quote, backslash, colon, comma] = [...Buffer.from('"\\:,')] as [number, number, number, number]
const opening = new Set(Buffer.from('{['))
const closing = new Set(Buffer.from('}]'))

/** Reads the identity of an event's object as its line comes, and keeps nothing else of it. */
export class LargeEventReader {
  #depth = 0
  /** names of the members whose values are being read, by depth */
  readonly #members: string[] = []
  readonly #found = new Map<string, string>()
  /** the next text is a value, not a name */
  #isValue = false
  /** bytes of the text that is being read; undefined: there is none */
  #text: number[] | undefined
  #isEscaped = false

  add(bytes: Buffer): void {
    for (const byte of bytes) {
      if (this.#text) this.#inText(this.#text, byte)
      else if (byte === quote) this.#text = []
      else if (byte === colon) this.#isValue = true
      else if (byte === comma) this.#isValue = false
      else if (opening.has(byte)) this.#enter()
      else if (closing.has(byte)) this.#depth -= 1
    }
  }

  /** Returns the fields, once the line has ended. */
  read(): LargeEvent {
    const of = (path: string) => this.#found.get(path) ?? ''
    const inMetadata = (member: string) => of(`object.metadata.${member}`)
    const [namespace, name, uid] = [inMetadata('namespace'), inMetadata('name'), inMetadata('uid')]
    return { type: of('type'), namespace, name, uid }
  }

  #enter(): void {
    this.#depth += 1
    this.#isValue = false
  }

  #inText(text: number[], byte: number): void {
    if (byte === quote && !this.#isEscaped) {
      this.#text = undefined
      if (this.#depth <= maxDepth) this.#take(text)
      return
    }
    this.#isEscaped = byte === backslash && !this.#isEscaped
    if (this.#depth <= maxDepth && text.length <= maxTextBytes) text.push(byte)
  }

  /** Takes a text that has ended, of the event, its object, or its metadata. */
  #take(bytes: number[]): void {
    const text = bytes.length > maxTextBytes ? '' : (JSON.parse(`"${Buffer.from(bytes).toString()}"`) as string)
    if (!this.#isValue) {
      this.#members[this.#depth - 1] = text
      return
    }
    const path = this.#members.slice(0, this.#depth).join('.')
    if (wanted.has(path)) this.#found.set(path, text)
  }
}
