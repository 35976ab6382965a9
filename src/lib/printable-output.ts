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

  constructor(stream: TextStream) {
    this.#stream = stream
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
    this.#put(printableLines(text))
  }

  /** On a terminal colours and moves stay: what is of others was made printable before they were added. */
  draw(text: string): void {
    const parts = this.isTTY ? text.split(drawn) : [text]
    this.#put(parts.map((part, i) => (i % 2 === 1 ? part : printableLines(part))).join(''))
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
