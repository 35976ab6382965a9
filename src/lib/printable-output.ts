import { printableLines } from './printable.ts'

/** The part of Node's `process.stdout` that this file uses. */
export interface TextStream {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** size of a terminal; undefined: it is none */
  readonly columns?: number | undefined
  readonly rows?: number | undefined
}

/** Sequences that commands draw with: colours, and moves and cleared lines on a screen of their own. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const drawn = /(\u001b\[(?:\d{1,2}m|[HJ]|K(?:\r\n)?|\?(?:25|1049)[hl]))/

/** bound of texts that are kept while nothing is written */
const maxMuted = 1000

/** Output of a command. Text of others in it cannot steer a terminal. */
export class PrintableOutput {
  readonly #stream: TextStream
  /** texts since `mute`; undefined: not muted */
  #muted: string[] | undefined
  readonly #isAscii: boolean

  /** @param options.isAscii - terminals get ASCII only; files and pipes get UTF-8 */
  constructor(stream: TextStream, { isAscii = false }: { readonly isAscii?: boolean } = {}) {
    this.#stream = stream
    this.#isAscii = isAscii && stream.isTTY === true
  }

  get isTTY(): boolean {
    return this.#stream.isTTY === true && this.#muted === undefined
  }

  get columns(): number | undefined {
    return this.#stream.columns
  }

  get rows(): number | undefined {
    return this.#stream.rows
  }

  /** Writes lines. JSON and YAML must be escaped before: here an unprintable character becomes a question mark. */
  write(text: string): void {
    const printable = printableLines(text)
    this.#put(this.#isAscii ? asciiText(printable) : printable)
  }

  /** Draws on a terminal: colours and moves stay. Text of others must be printable before they are added. */
  draw(text: string): void {
    const parts = this.isTTY ? text.split(drawn) : [text]
    const printable = parts.map((part, i) => (i % 2 === 1 ? part : printableLines(part))).join('')
    this.#put(this.#isAscii ? asciiDrawing(printable) : printable)
  }

  /** Writes nothing from now on, and counts as no terminal. */
  mute(): void {
    this.#muted ??= []
  }

  /** Ends `mute`, and writes the last texts since then. */
  unmute(): void {
    const texts = this.#muted ?? []
    this.#muted = undefined
    for (const text of texts) this.#stream.write(text)
  }

  #put(text: string): void {
    if (!this.#muted) return void this.#stream.write(text)
    this.#muted.push(text)
    if (this.#muted.length > maxMuted) this.#muted.shift()
  }
}

/** Characters that commands draw with, and frequent ones of texts, each with an ASCII character of the same width. */
const signs: Readonly<Record<string, string>> = {
  '✓': '+',
  '✗': 'x',
  '◐': '~',
  '○': 'o',
  '‖': '=',
  '·': '.',
  '…': '~',
  '≥': '>',
  '├': '|',
  '└': '`',
  '│': '|',
  '─': '-',
  '’': "'",
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII is meant
const foreignUnit = /[^\u0000-\u007f]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: the same, whole signs
const foreignSign = /[^\u0000-\u007f]/gu

/**
 * Converts drawn text for a terminal that has only ASCII. No line becomes longer; other characters become question
 * marks.
 */
export function asciiDrawing(text: string): string {
  return text.replaceAll(foreignSign, (sign) => signs[sign] ?? '?')
}

/** Converts JSON, YAML and single lines: other characters are escaped as in JSON. */
export function asciiText(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return text.replaceAll(foreignUnit, (unit) => signs[unit] ?? escaped(unit))
}

/**
 * True if the locale of an environment names another encoding than UTF-8, as `C` and `POSIX` do. Without a locale it is
 * UTF-8.
 */
export function isAsciiLocale(env: Readonly<Record<string, string | undefined>>): boolean {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG
  return Boolean(locale) && !/utf-?8/i.test(locale ?? '')
}
