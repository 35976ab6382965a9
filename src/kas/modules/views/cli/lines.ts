// biome-ignore lint/suspicious/noControlCharactersInRegex: of colours
const parts = /\u001b\[\d+m|[ -~]+|./gsu
/** Single characters and colours. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: of colours
const signs = /\u001b\[\d+m|./gsu
const wide =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18aff}\u{1b000}-\u{1b2ff}\u{1f100}-\u{1faff}\u{20000}-\u{3fffd}]/u
const noColour = '\u001b[0m'
/** Wider words are broken. */
const leastColumns = 20

/** Cuts a line to the terminal's width, with an ellipsis for the rest. Colours have no width. */
export function cut(line: string, columns: number): string {
  if (line.length * 2 <= columns) return line
  let width = 0
  let kept = ''
  let isColoured = false
  for (const [part] of line.matchAll(parts)) {
    if (part.startsWith('\u001b[')) {
      isColoured = part !== noColour
      kept += part
      continue
    }
    const room = columns - width
    width += textWidth(part)
    if (width > columns && part.length > 1 && isPlain(part)) kept += part.slice(0, room)
    if (width > columns) return `${withoutLast(kept)}…${isColoured ? noColour : ''}`
    kept += part
  }
  return line
}

/** A space at which no line is broken. */
const joint = '\u00a0'

/** Keeps words on one line. */
export const joined = (text: string) => text.replaceAll(' ', joint)

/**
 * Breaks a text between words, so that no line is wider. Each line begins with `indent`, later ones with two spaces
 * more.
 */
export function folded(text: string, columns: number, indent: string): string[] {
  if (text === '') return []
  const room = Math.max(leastColumns, columns - indent.length - 2)
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (line !== '' && textWidth(longer) > room) {
      lines.push(line)
      line = word
    } else line = longer
  }
  return [...lines, line].map((one, i) => `${indent}${i === 0 ? '' : '  '}${one.replaceAll(joint, ' ')}`)
}

/** True if `cut` would leave the line as it is. */
export function fits(line: string, columns: number): boolean {
  return cut(line, columns) === line
}

/**
 * Returns a command that can be copied: behind its label, or, if that is too wide, on lines of its own. Each line but
 * the last ends with the shell's continuation character.
 */
export function commandLines(label: string, command: string, columns: number, indent: string): string[] {
  if (command === '') return []
  const line = `${indent}${label} ${command}`
  if (fits(line, columns)) return [line]
  const below = `${indent}  `
  if (fits(`${below}${command}`, columns)) return [`${indent}${label}`, `${below}${command}`]
  const lines = folded(
    command.replace(/ -o \S+$/, (option) => ` ${joined(option.slice(1))}`),
    columns - 2,
    below,
  )
  return [`${indent}${label}`, ...lines.map((one, i) => (i < lines.length - 1 ? `${one} \\` : one))]
}

const isPlain = (text: string) => /^[ -~]*$/.test(text)

function textWidth(text: string): number {
  return isPlain(text) ? text.length : Array.from(text, widthOf).reduce((sum, width) => sum + width, 0)
}

function widthOf(sign: string): number {
  return wide.test(sign) ? 2 : 1
}

/** Removes the last character, but not a colour after it. */
function withoutLast(text: string): string {
  const all = [...text.matchAll(signs)].map(([sign]) => sign)
  const last = all.findLastIndex((part) => !part.startsWith('\u001b['))
  return all.filter((_, i) => i !== last).join('')
}
