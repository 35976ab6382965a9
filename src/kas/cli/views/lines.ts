// biome-ignore lint/suspicious/noControlCharactersInRegex: of colours
const parts = /\u001b\[\d+m|./gsu
const wide =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}]/u
const noColour = '\u001b[0m'
/** Words that are wider than this are broken. */
const leastColumns = 20

/** What of a line, colours left out, fits a terminal; with an ellipsis in place of the rest. */
export function cut(line: string, columns: number): string {
  let width = 0
  let kept = ''
  let isColoured = false
  for (const [part] of line.matchAll(parts)) {
    if (part.startsWith('\u001b[')) {
      isColoured = part !== noColour
      kept += part
      continue
    }
    width += widthOf(part)
    if (width > columns) return `${withoutLast(kept)}…${isColoured ? noColour : ''}`
    kept += part
  }
  return line
}

/** Broken between words, so that no line is wider; each after `indent`, those after the first after two spaces more. */
export function folded(text: string, columns: number, indent: string): string[] {
  if (text === '') return []
  const room = Math.max(leastColumns, columns - indent.length - 2)
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (line !== '' && [...longer].length > room) {
      lines.push(line)
      line = word
    } else line = longer
  }
  return [...lines, line].map((one, i) => `${indent}${i === 0 ? '' : '  '}${one}`)
}

function widthOf(sign: string): number {
  return wide.test(sign) ? 2 : 1
}

/** A colour that comes last stays. */
function withoutLast(text: string): string {
  const all = [...text.matchAll(parts)].map(([part]) => part)
  const last = all.findLastIndex((part) => !part.startsWith('\u001b['))
  return all.filter((_, i) => i !== last).join('')
}
