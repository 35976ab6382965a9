/** limit of the characters of a text that is shown */
export const maxText = 512
/** characters of the end of a longer text that are kept: a registry's or the API server's answer is there */
const keptEnd = 192
/** limit of the characters of a text that are searched */
const maxSearched = 4096
const gap = ' … '
/** limit of the characters of a word that is left out instead of cut */
const maxWord = 48

/** Returns one line of at most so many characters. A longer one loses its middle. */
export function bounded(text: string, most = maxText): string {
  if (text.length > 2 * maxText) return joined(text.slice(0, maxText), text.slice(-maxText), most)
  const line = toLine(text)
  return line.length <= most ? line : joined(line, line, most)
}

/** Returns the part of a text that is searched: the beginning of a longer one. */
export function searched(text: string): string {
  return text.length <= maxSearched ? text : text.slice(0, maxSearched)
}

function joined(start: string, end: string, most: number): string {
  const kept = fromWord(toLine(end), Math.min(keptEnd, most / 2))
  return `${toWord(toLine(start), most - kept.length - gap.length)}${gap}${kept}`
}

/** Returns the first characters, up to the end of a word. */
function toWord(line: string, most: number): string {
  if (line.length <= most || line[most] === ' ') return line.slice(0, most).trimEnd()
  const space = line.lastIndexOf(' ', most)
  return line.slice(0, most - space <= maxWord ? space : most).trimEnd()
}

/** Returns the last characters, from the beginning of a word. */
function fromWord(line: string, most: number): string {
  const from = line.length - most
  if (from <= 0 || line[from - 1] === ' ') return line.slice(-most).trimStart()
  const space = line.indexOf(' ', from)
  return line.slice(space >= 0 && space - from <= maxWord ? space + 1 : from)
}

/** Matches a Pod as the kubelet names it: `pod web-1_shop(0b8e6f7a-…)`. */
const podUid = /_[a-z0-9-]{1,63}\([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)/g

const toLine = (text: string) =>
  (/[^\S ]| {2}/.test(text) ? text.replaceAll(/\s+/g, ' ') : text).trim().replaceAll(podUid, '')

const combined = '(combined from similar events): '

/** Returns an event's message without the prefix of the API server's recorder. */
export function withoutCombined(text: string): string {
  return text.startsWith(combined) ? text.slice(combined.length) : text
}
