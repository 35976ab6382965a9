import { type Event, parseEvents, YAMLException } from 'js-yaml'
import { marksOf, type RoundBudget, takeMarks } from './round-budget.ts'
import { bracketEnd } from './yaml-text.ts'

/** Fault in a file. */
export class YamlFault extends Error {
  /** from 1; 0: the whole file */
  readonly line: number
  /** the same text without words of the file */
  readonly unquoted: string

  constructor(text: string, line = 0, unquoted = text) {
    super(text)
    this.line = line
    this.unquoted = unquoted
  }
}

export interface YamlEvents {
  /** text for the offsets of events: it has the lines of the file, some with more spaces before them */
  readonly text: string
  readonly events: readonly Event[]
}

export interface YamlEventsOptions {
  /** line in its file at which the text begins */
  readonly line: number
  /** limit of nested maps and lists */
  readonly maxDepth: number
  /** budget that other texts have left; each reading of the text takes from it */
  readonly budget: RoundBudget
}

/** Reason that the parser gives for a line in brackets or quotes that is not deeper than the map or list around it. */
const shallow = 'deficient indentation'
/** Limit of spaces that the lines of one text get in all. */
const maxAddedSpaces = 8 * 1024 * 1024

/**
 * Returns the events of a text. As in Go's YAML, lines in brackets and in quotes may have any indentation. Lines that
 * are not deep enough for the parser get more spaces.
 *
 * @throws YamlFault if it is no YAML, or too much of it
 */
export function yamlEvents(text: string, options: YamlEventsOptions): YamlEvents {
  let [current, left, pad] = [text, maxAddedSpaces, 0]
  for (;;) {
    const read = tryRead(current, options)
    if ('events' in read) return read
    const { reason, line, offset } = read
    const start = offset === undefined ? -1 : lineStart(current, offset)
    const isEnd = /^(?:---|\.\.\.)(?:\s|$)/.test(current.slice(start, start + 4))
    if (reason !== shallow || start < 0 || isEnd) throw new YamlFault(reason, options.line + line, unquoted(reason))
    pad ||= deepest(text) + 1 // more than any line has
    const end = bracketEnd(current, start)
    const add = (until: number) => {
      left -= pad * linesOf(current, start, until)
      if (left < 0) throw new YamlFault('too many lines in brackets are not deeper than their key', options.line + line)
      return padded(current, start, until, pad)
    }
    const all = add(end)
    const further = tryRead(all, options)
    if ('events' in further) return further
    // brackets may be part of a text: then one line after another
    const isFurther = further.reason === shallow && further.line > line
    current = isFurther ? all : add(start)
  }
}

/** Removes the word of the file that some reasons of the parser quote: `undeclared tag handle "!a!"`. */
function unquoted(reason: string): string {
  return reason.replace(/(?:: | ").*/s, '')
}

interface Unread {
  readonly reason: string
  /** from 0 */
  readonly line: number
  readonly offset?: number | undefined
}

/** @throws YamlFault: too much was read */
function tryRead(text: string, { line, maxDepth, budget }: YamlEventsOptions): YamlEvents | Unread {
  const tooMany = takeMarks(budget, marksOf(text))
  if (tooMany !== undefined) throw new YamlFault(tooMany, line)
  try {
    return { text, events: parseEvents(text, { maxDepth }) }
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    return { reason: error.reason, line: error.mark?.line ?? 0, offset: error.mark?.position }
  }
}

function lineStart(text: string, offset: number): number {
  return Math.max(text.lastIndexOf('\n', offset - 1), text.lastIndexOf('\r', offset - 1)) + 1
}

/** Adds so many spaces before each line that begins from `start` to `end`. */
function padded(text: string, start: number, end: number, spaces: number): string {
  const pad = ' '.repeat(spaces)
  const lines = text.slice(start, end).replaceAll(/\n(?!\r?\n|$)/g, `\n${pad}`)
  return `${text.slice(0, start)}${pad}${lines}${text.slice(end)}`
}

/** Returns the columns before the deepest line: spaces, and characters that begin lists and maps within one line. */
function deepest(text: string): number {
  let most = 0
  for (const [before] of text.matchAll(/^[ ?:-]*/gm)) most = Math.max(most, before.length)
  return most
}

/** Counts the lines that get spaces. */
function linesOf(text: string, start: number, end: number): number {
  let lines = 1
  for (let at = text.indexOf('\n', start); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) lines++
  return lines
}
