import { printableLines } from './printable.ts'

/** The part of node's `process.stdout` that is needed. */
export interface TextStream {
  write(text: string): unknown
  readonly isTTY?: boolean
  /** of a terminal */
  readonly columns?: number | undefined
  readonly rows?: number | undefined
}

/** Colours, and lines and moves on a screen of its own: all that commands draw with. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what it is about
const drawn = /(\u001b\[(?:\d{1,2}m|[HJ]|K(?:\r\n)?|\?(?:25|1049)[hl]))/

/** texts that are kept while nothing is written */
const maxMuted = 1000

/** Where a command writes: whatever others have named or said in its texts, it steers no terminal. */
export class PrintableOutput {
  readonly #stream: TextStream
  /** what was not written since `mute` */
  #muted: string[] | undefined
  readonly #isAscii: boolean

  /** @param options.isAscii - a terminal there knows no other signs; files and pipes get UTF-8 */
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

  /** Lines. JSON and YAML have to be escaped before: here a sign that cannot be printed becomes a question mark. */
  write(text: string): void {
    const printable = printableLines(text)
    this.#put(this.#isAscii ? asciiText(printable) : printable)
  }

  /** On a terminal colours and moves stay: what is of others was made printable before they were added. */
  draw(text: string): void {
    const parts = this.isTTY ? text.split(drawn) : [text]
    const printable = parts.map((part, i) => (i % 2 === 1 ? part : printableLines(part))).join('')
    this.#put(this.#isAscii ? asciiDrawing(printable) : printable)
  }

  /** Writes nothing from now on, and is no terminal. */
  mute(): void {
    this.#muted ??= []
  }

  /** Ends `mute`, and writes the last of what was not written. */
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

/** Signs that commands draw with, and that texts have often, each by a sign of ASCII that is as wide. */
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

/** Of text, for a terminal that knows ASCII alone: no line becomes longer, what has no sign that stands for it is a question mark. */
export function asciiDrawing(text: string): string {
  return text.replaceAll(foreignSign, (sign) => signs[sign] ?? '?')
}

/** The same of JSON, YAML and single lines: signs without one that stands for them are escaped as JSON has it. */
export function asciiText(text: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  return text.replaceAll(foreignUnit, (unit) => signs[unit] ?? escaped(unit))
}

/**
 * Whether the locale of an environment names another encoding than UTF-8, as `C` and `POSIX` do. Where none is named UTF-8 is
 * taken for granted.
 */
export function isAsciiLocale(env: Readonly<Record<string, string | undefined>>): boolean {
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG
  return Boolean(locale) && !/utf-?8/i.test(locale ?? '')
}
