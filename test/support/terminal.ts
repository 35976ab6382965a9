// biome-ignore lint/suspicious/noControlCharactersInRegex: of a terminal
const parts = /\u001b\[(?<parameters>[?\d;]*)(?<final>[@-~])|(?<plain>[ -~]+)|./gsu
const wide =
  /\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hangul}|\p{Script=Hiragana}|\p{Script=Katakana}|[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]/u
const without = /[\p{Mn}\p{Me}\p{Cf}]/u

interface Side {
  lines: string[][]
  /** row of the cursor, from 0 */
  row: number
  column: number
}

/**
 * A terminal of xterm's kind, with the sequences that the commands use: its screen, the lines scrolled off it, and
 * whether a line was wrapped.
 */
export class Terminal {
  readonly isTTY = true
  readonly columns: number
  readonly rows: number
  /** lines that have left the top of the main screen */
  readonly scrollback: string[] = []
  /** number of lines that were longer than the screen is wide */
  wrapped = 0
  /** number of lines that have left the top of the alternate screen, which keeps none */
  lost = 0
  isCursorHidden = false
  #main: Side
  #other: Side | undefined

  constructor({ columns, rows }: { readonly columns: number; readonly rows: number }) {
    this.columns = columns
    this.rows = rows
    this.#main = this.#empty()
  }

  /** The alternate screen is shown; the main one stays as it was. */
  get isOther(): boolean {
    return this.#other !== undefined
  }

  /** Lines on the screen, without blanks at their ends. */
  get screen(): readonly string[] {
    return this.#side.lines.map((line) =>
      Array.from(line, (sign) => sign ?? ' ')
        .join('')
        .trimEnd(),
    )
  }

  get #side(): Side {
    return this.#other ?? this.#main
  }

  /** @throws Error at a sequence that the commands do not use */
  write(text: string): void {
    for (const { 0: sign, groups = {} } of text.matchAll(parts)) {
      const { plain = '' } = groups
      if (plain !== '') for (const one of plain) this.#take(one, 1)
      else if (groups.final === undefined) this.#put(sign)
      else this.#obey(`${groups.parameters}${groups.final}`)
    }
  }

  #obey(sequence: string): void {
    const side = this.#side
    if (/^[\d;]*m$/.test(sequence)) return
    switch (sequence) {
      case '?1049h':
        this.#other = this.#empty()
        break
      case '?1049l':
        this.#other = undefined
        break
      case '?25h':
      case '?25l':
        this.isCursorHidden = sequence === '?25l'
        break
      case 'H':
        Object.assign(side, { row: 0, column: 0 })
        break
      case 'K':
        side.lines[side.row]?.splice(side.column)
        break
      case 'J':
        side.lines[side.row]?.splice(side.column)
        for (const line of side.lines.slice(side.row + 1)) line.splice(0)
        break
      default:
        throw new Error(`nobody uses the sequence ${JSON.stringify(sequence)}`)
    }
  }

  #put(sign: string): void {
    const side = this.#side
    if (sign === '\r') side.column = 0
    else if (sign === '\n') {
      side.column = 0 // as the line discipline has it
      this.#down()
    } else if (sign < ' ' || (sign >= '\u007f' && sign < '\u00a0')) {
      throw new Error(`nobody uses the control ${JSON.stringify(sign)}`)
    } else if (!without.test(sign)) this.#take(sign, wide.test(sign) ? 2 : 1)
  }

  #take(sign: string, width: 1 | 2): void {
    const side = this.#side
    if (side.column + width > this.columns) {
      this.wrapped++
      side.column = 0
      this.#down()
    }
    const line = side.lines[side.row] as string[]
    line[side.column] = sign
    if (width === 2) line[side.column + 1] = ''
    side.column += width
  }

  #down(): void {
    const side = this.#side
    if (side.row < this.rows - 1) {
      side.row++
      return
    }
    const [top = []] = side.lines.splice(0, 1)
    side.lines.push([])
    if (side === this.#main) this.scrollback.push(top.join(''))
    else this.lost++
  }

  #empty(): Side {
    return { lines: Array.from({ length: this.rows }, () => []), row: 0, column: 0 }
  }
}
