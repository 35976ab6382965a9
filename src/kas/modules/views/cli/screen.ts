import type { PrintableOutput } from '../../../../lib/printable-output.ts'
import { cut } from './lines.ts'

const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const toEndOfLine = '\u001b[K'
const toEnd = '\u001b[J'
/** Of a terminal that does not say its size. */
const usual = { columns: 80, rows: 24 }

export interface Frame {
  /** lines, each with its end */
  readonly text: string
  /** the last line; empty: none */
  readonly last: string
}

/** Infinite: it is no terminal. */
export function columnsOf({ isTTY, columns }: PrintableOutput): number {
  return isTTY ? columns || usual.columns : Number.POSITIVE_INFINITY
}

/** The same. */
export function rowsOf({ isTTY, rows }: PrintableOutput): number {
  return isTTY ? rows || usual.rows : Number.POSITIVE_INFINITY
}

/**
 * What is shown now. With `isFull`, on a terminal in place of what was, on a screen of its own that leaves what was
 * written before it untouched, cut to its size; elsewhere below it, and only if it differs.
 */
export class Screen {
  readonly #stdout: PrintableOutput
  readonly #isFull: boolean
  #shown: string | undefined

  constructor(stdout: PrintableOutput, isFull: boolean) {
    this.#stdout = stdout
    this.#isFull = isFull && stdout.isTTY
  }

  get isFull(): boolean {
    return this.#isFull
  }

  /** Infinite: it is no terminal. */
  get columns(): number {
    return columnsOf(this.#stdout)
  }

  get rows(): number {
    return rowsOf(this.#stdout)
  }

  show({ text, last }: Frame): void {
    if (this.#isFull) this.#fill(text, last)
    else this.print((last === '' ? text : `${text}${last}\n`).replaceAll(/[^\n]+/g, (line) => cut(line, this.columns)))
  }

  /** As it is. */
  print(text: string): void {
    if (text === this.#shown) return
    this.#stdout.draw(`${this.#shown === undefined ? '' : '\n'}${text}`)
    this.#shown = text
  }

  /** What was written before it is there again. */
  close(): void {
    if (this.#isFull && this.#shown !== undefined) this.#stdout.draw(leave)
    this.#shown = undefined
  }

  #fill(text: string, last: string): void {
    const rows = this.#stdout.rows || usual.rows
    const lines = text.split('\n').slice(0, -1)
    const room = Math.max(1, rows - (last === '' ? 0 : 1))
    const left = lines.length - room
    const shown = left > 0 ? [...lines.slice(0, room - 1), `… ${left + 1} lines more`] : lines
    const all = [...shown, ...(last === '' ? [] : [last])].slice(0, rows)
    const frame = all.map((line) => `${cut(line, this.columns)}${toEndOfLine}`).join('\r\n')
    if (this.#shown === frame) return
    this.#stdout.draw(`${this.#shown === undefined ? enter : ''}${home}${frame}${toEnd}`)
    this.#shown = frame
  }
}
