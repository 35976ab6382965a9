import { setImmediate } from 'node:timers/promises'

/**
 * Bound of the levels of one value. Values of Kubernetes have a few dozen. JSON.parse takes seconds for millions of
 * them, which fit into the bytes that a caller may send.
 */
export const maxJsonDepth = 1000

/** Bytes that are scanned before other work has its turn: some milliseconds. */
const bytesPerTurn = 128 * 1024

const [quote, comma, colon] = [0x22, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

const plain = String.fromCharCode(...Array.from({ length: 224 }, (_, i) => 32 + i)).replaceAll(/["\\]/g, '')
const hex = '0123456789abcdefABCDEF'
const words = ['true', 'false', 'null']
/** States of tokens that may end there. */
const wholeStates = ['whole text', 'zero', 'integer', 'fraction', 'exponent', ...words]
/** Grammar of texts, numbers and words: states, bytes that may follow, next state. */
const grammar: readonly (readonly [states: readonly string[], bytes: string, next: string])[] = [
  [['begin'], '"', 'text'],
  [['text'], plain, 'text'],
  [['text'], '"', 'whole text'],
  [['text'], '\\', 'escape'],
  [['escape'], '"\\/bfnrt', 'text'],
  [['escape'], 'u', 'hex 1'],
  [['hex 1'], hex, 'hex 2'],
  [['hex 2'], hex, 'hex 3'],
  [['hex 3'], hex, 'hex 4'],
  [['hex 4'], hex, 'text'],
  [['begin'], '-', 'minus'],
  [['begin', 'minus'], '0', 'zero'],
  [['begin', 'minus'], '123456789', 'integer'],
  [['integer'], '0123456789', 'integer'],
  [['zero', 'integer'], '.', 'point'],
  [['point', 'fraction'], '0123456789', 'fraction'],
  [['zero', 'integer', 'fraction'], 'eE', 'e'],
  [['e'], '+-', 'sign'],
  [['e', 'sign', 'exponent'], '0123456789', 'exponent'],
  ...words.flatMap((word) =>
    Array.from(word, (sign, i) => [[word.slice(0, i) || 'begin'], sign, word.slice(0, i + 1)] as const),
  ),
]
const states = [...new Set([...wholeStates, ...grammar.map(([, , next]) => next), 'begin'])]
const numberOf = (state: string) => states.indexOf(state) + 1
const [none, wholeText, lastWhole] = [0, 1, wholeStates.length]
const [begin, text, inEscape] = [numberOf('begin'), numberOf('text'), numberOf('escape')]
/** next state by state and byte; `none`: the byte is no part of the token */
const steps = new Uint8Array(256 * (states.length + 1))
for (const [from, bytes, next] of grammar)
  for (const state of from) for (const sign of bytes) steps[256 * numberOf(state) + sign.charCodeAt(0)] = numberOf(next)

const noBytes = Buffer.alloc(0)

/** Names of members, in ASCII. Each has the key under which its text is found, or the names of members below it. */
export interface JsonPlaces {
  readonly [name: string]: string | JsonPlaces
}

/** names in objects that have no place */
const noPlaces: JsonPlaces = {}

export interface JsonScanPlan {
  readonly places: JsonPlaces
  /** levels of objects and arrays */
  readonly maxDepth: number
  /** bytes of a name or text that is read, as it is written; longer ones are ignored */
  readonly maxTextBytes: number
  /** the scan fails at an escape in a name or text that is read */
  readonly refusesEscapes?: boolean
  /** called after each text that is read; true ends the scan */
  readonly isEnough?: (texts: JsonScanner['texts']) => boolean
}

/**
 * Reads texts at some places of a JSON object as its bytes come, and checks the grammar as JSON.parse does. It builds
 * nothing else, and takes time in proportion to the bytes.
 */
export class JsonScanner {
  readonly #plan: JsonScanPlan
  readonly #texts: Record<string, string> = {}
  #end: 'failed' | 'enough' | undefined
  #expects: 'value' | 'name' | 'colon' | 'comma' | 'nothing' = 'value'
  /** the innermost object or array has no member yet */
  #isEmpty = false
  /** state of the unfinished token; `none`: there is none */
  #token = none
  /** the token has an escape */
  #isEscaped = false
  /** the token is a name in an object with places, or the value at a place */
  #isRead = false
  /** bytes of the token in earlier chunks, as far as they are read */
  #kept = noBytes
  /** places in each open object; undefined: it is an array */
  readonly #levels: (JsonPlaces | undefined)[] = []
  /** place of the value that comes next */
  #place: string | JsonPlaces | undefined

  constructor(plan: JsonScanPlan) {
    this.#plan = plan
    this.#place = plan.places
  }

  /** Texts by key. The last value at a place counts. There is no text if that value is none, or too long. */
  get texts(): Readonly<Record<string, string>> {
    return this.#texts
  }

  /** True if the bytes so far are one JSON object, or its texts are enough. */
  get isDone(): boolean {
    return this.#end === 'enough' || (this.#end === undefined && this.#expects === 'nothing')
  }

  /**
   * Scans the next bytes, and keeps none of them but parts of names and texts.
   *
   * @returns false: the texts are enough; or the bytes are no JSON object, have too many levels or a refused escape, or
   * have no object on the way to a place
   */
  add(chunk: Uint8Array): boolean {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    let at = 0
    while (at < bytes.length && this.#end === undefined)
      at = this.#token === none ? this.#scanSign(bytes, at) : this.#scanToken(bytes, at)
    return this.#end === undefined
  }

  /** Scans a byte between tokens, or the token that begins there. @returns index of the next byte */
  #scanSign(bytes: Buffer, at: number): number {
    const byte = bytes[at] as number
    const expects = this.#expects
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return at + 1
    if (byte === closeBrace || byte === closeBracket) this.#closeLevel(byte === closeBrace)
    else if (expects === 'value' && (byte === openBrace || byte === openBracket)) this.#openLevel(byte === openBrace)
    else if (expects === 'value' || (expects === 'name' && byte === quote)) {
      this.#beginToken()
      return this.#scanToken(bytes, at)
    } else if (expects === 'colon' && byte === colon) this.#expects = 'value'
    else if (expects === 'comma' && byte === comma) this.#expects = this.#levels.at(-1) ? 'name' : 'value'
    else this.#end = 'failed'
    return at + 1
  }

  #openLevel(isObject: boolean): void {
    const place = this.#place
    this.#place = undefined
    if (typeof place === 'string') delete this.#texts[place]
    if (typeof place === 'object' && !isObject) this.#end = 'failed'
    const places = typeof place === 'object' ? place : noPlaces
    if (this.#levels.push(isObject ? places : undefined) > this.#plan.maxDepth) this.#end = 'failed'
    this.#expects = isObject ? 'name' : 'value'
    this.#isEmpty = true
  }

  #closeLevel(isObject: boolean): void {
    const isAtEnd = this.#isEmpty || this.#expects === 'comma'
    if (!isAtEnd || isObject !== (this.#levels.pop() !== undefined)) this.#end = 'failed'
    this.#expects = this.#levels.length === 0 ? 'nothing' : 'comma'
    this.#isEmpty = false
  }

  #beginToken(): void {
    const isName = this.#expects === 'name'
    this.#token = begin
    this.#isEscaped = false
    this.#isRead = isName ? this.#levels.at(-1) !== noPlaces : typeof this.#place === 'string'
    this.#isEmpty = false
    if (!isName && typeof this.#place === 'object') this.#end = 'failed'
  }

  /** Scans a token, or its next bytes. @returns index of the byte behind it, or the end of the bytes */
  #scanToken(bytes: Buffer, from: number): number {
    let state = this.#token
    let at = from
    while (at < bytes.length) {
      const next = steps[256 * state + (bytes[at] as number)] as number
      if (next === none) break
      if (next === inEscape) this.#isEscaped = true
      state = next
      at = state === text ? plainEnd(bytes, at + 1) : at + 1
    }
    const goesOn = at === bytes.length && state !== wholeText
    this.#token = goesOn ? state : none
    if (goesOn) this.#keep(bytes.subarray(from))
    else if (state <= lastWhole) this.#endToken(bytes, from, at)
    else this.#end = 'failed'
    return at
  }

  /** Ends a token whose last bytes are these. */
  #endToken(bytes: Buffer, from: number, to: number): void {
    if (this.#kept.length > 0) {
      const whole = Buffer.concat([this.#kept, bytes.subarray(from, to)])
      this.#kept = noBytes
      this.#endToken(whole, 0, whole.length)
      return
    }
    const isName = this.#expects === 'name'
    this.#expects = isName ? 'colon' : 'comma'
    if (!this.#isRead) return
    if (isName) this.#place = this.#findPlace(bytes, from, to)
    else this.#take(this.#place as string, this.#readText(bytes, from, to))
  }

  #findPlace(bytes: Buffer, from: number, to: number): string | JsonPlaces | undefined {
    const places = this.#levels.at(-1) as JsonPlaces
    const read = this.#isEscaped ? this.#readText(bytes, from, to) : undefined
    for (const name in places)
      if (this.#isEscaped ? name === read : isWritten(name, bytes, from + 1, to - 1)) return places[name]
    return undefined
  }

  #take(key: string, read: string | undefined): void {
    if (read === undefined) delete this.#texts[key]
    else this.#texts[key] = read
    if (this.#plan.isEnough?.(this.#texts)) this.#end ??= 'enough'
  }

  /** Returns the text of a token; undefined: it is none, or too long. */
  #readText(bytes: Buffer, from: number, to: number): string | undefined {
    if (bytes[from] !== quote || to - from - 2 > this.#plan.maxTextBytes) return undefined
    if (!this.#isEscaped) return bytes.toString('utf8', from + 1, to - 1)
    if (this.#plan.refusesEscapes) this.#end = 'failed'
    return JSON.parse(bytes.toString('utf8', from, to)) as string
  }

  /** Keeps a copy of the bytes of a token that is read: with quotes, and one byte that makes it too long. */
  #keep(part: Buffer): void {
    const most = this.#plan.maxTextBytes + 3
    if (this.#isRead && this.#kept.length < most) this.#kept = Buffer.concat([this.#kept, part.subarray(0, most)])
  }
}

/** Returns the index of the first byte that is no plain text. */
function plainEnd(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && steps[256 * text + (bytes[at] as number)] === text) at++
  return at
}

/** True if the bytes are that text, which is ASCII. */
function isWritten(ascii: string, bytes: Buffer, from: number, to: number): boolean {
  if (ascii.length !== to - from) return false
  for (let i = 0; i < ascii.length; i++) if (ascii.charCodeAt(i) !== bytes[from + i]) return false
  return true
}

/** Scans all bytes of a value, with pauses for other work. */
export async function scanInTurns(plan: JsonScanPlan, bytes: Uint8Array): Promise<JsonScanner> {
  const scanner = new JsonScanner(plan)
  for (let from = 0; from < bytes.length; from += bytesPerTurn) {
    if (from > 0) await setImmediate()
    if (!scanner.add(bytes.subarray(from, from + bytesPerTurn))) break
  }
  return scanner
}

const anyObject: JsonScanPlan = { places: {}, maxDepth: maxJsonDepth, maxTextBytes: 64, refusesEscapes: true }

/**
 * True if `bytes` are one JSON object, so that text can be written around it. Its own names have no escapes: Kubernetes
 * and agentk write none there.
 */
export async function isOneObject(bytes: Uint8Array): Promise<boolean> {
  return (await scanInTurns(anyObject, bytes)).isDone
}
