import { printable } from '../../../../lib/printable.ts'

/** Runs of backticks. */
const backticks = /`+/g

/**
 * Returns a text of others as a code span: nothing in it is markup, a mention, a reference or a link. It is one line, so
 * that no line begins with it.
 */
export function codeSpan(text: string): string {
  const line = printable(text)
  const ticks = '`'.repeat(longestRun(line) + 1)
  return line.trim() === '' ? '` `' : `${ticks} ${line} ${ticks}`
}

/**
 * Returns a text of others as a code element of HTML, for the title of a fold, where Markdown is not read. All signs but
 * letters, digits and a few harmless ones are written by their numbers.
 */
export function codeElement(text: string): string {
  const escaped = printable(text).replaceAll(/[^A-Za-z0-9 ._-]/gu, (sign) => `&#${sign.codePointAt(0)};`)
  return `<code>${escaped}</code>`
}

/**
 * Returns lines as a fenced block, whose fence is longer than any run of backticks in them. Each line needs a beginning
 * that is no text of others. GitLab searches lines for quick actions, and takes a shorter fence in a block for its end.
 */
export function fencedBlock(lines: readonly string[], language: 'diff'): readonly string[] {
  const printed = lines.map(printable)
  const fence = '`'.repeat(printed.reduce((length, line) => Math.max(length, longestRun(line) + 1), 3))
  return [`${fence}${language}`, ...printed, fence]
}

function longestRun(text: string): number {
  let longest = 0
  for (const [run] of text.matchAll(backticks)) longest = Math.max(longest, run.length)
  return longest
}
