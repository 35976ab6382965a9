/** characters of a text that is shown */
export const maxText = 512
/** characters of its end that are kept of a longer one: there stands what a registry or the API server answered */
const keptEnd = 192
/** characters of a text that are searched for what it says */
const maxSearched = 4096
const gap = ' … '

/** One line of so many characters at most. What is longer loses its middle. */
export function bounded(text: string, most = maxText): string {
  if (text.length > 2 * maxText) return joined(text.slice(0, maxText), text.slice(-maxText), most)
  const line = toLine(text)
  return line.length <= most ? line : joined(line, line, most)
}

/** The part of a text that is read for what it says: the rest of a longer one is not. */
export function searched(text: string): string {
  return text.length <= maxSearched ? text : text.slice(0, maxSearched)
}

function joined(start: string, end: string, most: number): string {
  const kept = toLine(end).slice(-Math.min(keptEnd, most / 2))
  return `${toLine(start).slice(0, most - kept.length - gap.length)}${gap}${kept}`
}

const toLine = (text: string) => (/[^\S ]| {2}/.test(text) ? text.replaceAll(/\s+/g, ' ') : text).trim()

const combined = '(combined from similar events): '

/** An event's message without what the API server's recorder writes before it. */
export function withoutCombined(text: string): string {
  return text.startsWith(combined) ? text.slice(combined.length) : text
}
