/** characters of a text that is shown */
export const maxText = 512
/** characters of its end that are kept of a longer one: there stands what a registry or the API server answered */
const keptEnd = 192
/** characters of a text that are searched for what it says */
const maxSearched = 4096
const gap = ' … '
/** characters of a word that is left out rather than cut */
const maxWord = 48

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
  const kept = fromWord(toLine(end), Math.min(keptEnd, most / 2))
  return `${toWord(toLine(start), most - kept.length - gap.length)}${gap}${kept}`
}

/** Its first characters, up to the end of a word. */
function toWord(line: string, most: number): string {
  if (line.length <= most || line[most] === ' ') return line.slice(0, most).trimEnd()
  const space = line.lastIndexOf(' ', most)
  return line.slice(0, most - space <= maxWord ? space : most).trimEnd()
}

/** Its last characters, from the beginning of a word. */
function fromWord(line: string, most: number): string {
  const from = line.length - most
  if (from <= 0 || line[from - 1] === ' ') return line.slice(-most).trimStart()
  const space = line.indexOf(' ', from)
  return line.slice(space >= 0 && space - from <= maxWord ? space + 1 : from)
}

/** As the kubelet names a Pod: `pod web-1_shop(0b8e6f7a-…)`. */
const podUid = /_[a-z0-9-]{1,63}\([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)/g

const toLine = (text: string) =>
  (/[^\S ]| {2}/.test(text) ? text.replaceAll(/\s+/g, ' ') : text).trim().replaceAll(podUid, '')

const combined = '(combined from similar events): '

/** An event's message without what the API server's recorder writes before it. */
export function withoutCombined(text: string): string {
  return text.startsWith(combined) ? text.slice(combined.length) : text
}
