import type { PrintableOutput } from '../../../../lib/printable-output.ts'
import { cut } from './lines.ts'

const enter = '\u001b[?1049h\u001b[?25l'
const leave = '\u001b[?25h\u001b[?1049l'
const home = '\u001b[H'
const toEndOfLine = '\u001b[K'
const toEnd = '\u001b[J'
/** Size of a terminal that reports none. */
const usual = { columns: 80, rows: 24 }

export interface Frame {
  /** lines, each with its end */
  readonly text: string
  /** the last line; empty: none */
  readonly last: string
}

/** Returns the width in columns; infinite: it is no terminal. */
export function columnsOf({ isTTY, columns }: PrintableOutput): number {
  return isTTY ? columns || usual.columns : Number.POSITIVE_INFINITY
}

/** Returns the height in rows; infinite: it is no terminal. */
export function rowsOf({ isTTY, rows }: PrintableOutput): number {
  return isTTY ? rows || usual.rows : Number.POSITIVE_INFINITY
}

/**
 * Shows the current frame. With `isFull`, on a terminal, it replaces the previous frame on an alternate screen, cut to
 * its size. Otherwise it is written below earlier output, and only if it differs.
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

  /** Width; infinite: it is no terminal. */
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

  /** Prints the text without cutting it. */
  print(text: string): void {
    if (text === this.#shown) return
    this.#stdout.draw(`${this.#shown === undefined ? '' : '\n'}${text}`)
    this.#shown = text
  }

  /** Leaves the alternate screen, so that earlier output is visible again. */
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
