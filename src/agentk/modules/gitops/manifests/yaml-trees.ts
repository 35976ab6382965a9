import {
  type AliasEvent,
  COLLECTION_STYLE,
  EVENT_ID,
  type Event,
  getScalarValue,
  type MappingEvent,
  SCALAR_STYLE,
  type ScalarEvent,
  type SequenceEvent,
} from 'js-yaml'
import { goScalar, goTaggedScalar } from './go-scalar.ts'
import { maxTreeCharacters, type RoundBudget } from './round-budget.ts'
import { YamlFault, yamlEvents } from './yaml-events.ts'
import { TextLines } from './yaml-text.ts'

/** Limit of aliases in one document. */
export const maxAliases = 100
/** Limit of nested maps and lists, also of those in aliases. */
export const maxDepth = 100
export interface YamlTreesOptions {
  /** line in its file at which the text begins */
  readonly line: number
  /** budget that other texts have left, from which reading takes */
  readonly budget: RoundBudget
  /** for files that programs read by themselves: texts that YAML readers may read differently are a fault */
  readonly asPrograms?: boolean
}

/** Tags that all YAML readers read alike. */
const plainTags = new Set(['!!str', '!!int', '!!float', '!!bool', '!!null', '!!map', '!!seq'])

const mergeTags = new Set(['!!merge', '!<tag:yaml.org,2002:merge>'])

/** Fault of a merged key that the map has: readers of YAML differ in which value wins. */
const unlikeMerge = '<< brings a key that the map has: write it once, without <<'

const unanchored = 'no anchor stands before an alias: a text that begins with * wants quotes'

/** A document. */
export interface Tree {
  readonly value: unknown
  /** line at which it begins */
  readonly line: number
  /** its characters as JSON, about; the value of an alias counts each time */
  readonly characters: number
}

interface Extent {
  readonly start: number
  readonly characters: number
}

interface Anchored {
  readonly value: unknown
  /** characters as JSON, about */
  readonly characters: number
  /** levels of maps and lists */
  readonly height: number
}

/** Builds the trees of a text's documents, by the rules of Go's YAML 1.1. An alias shares the tree of its anchor. */
export class YamlTrees {
  readonly #text: string
  readonly #events: readonly Event[]
  readonly #lines: TextLines
  readonly #budget: RoundBudget
  readonly #asPrograms: boolean
  #at = 0
  #depth = 0
  /** deepest level below the current node */
  #deepest = 0
  #aliases = 0
  /** offsets of the brackets around the current node */
  readonly #brackets: number[] = []
  #anchors = new Map<string, Anchored>()
  /** items of lists near the root, which may be objects themselves */
  readonly #items = new WeakMap<object, Extent>()
  /** characters of all documents as JSON, about */
  characters = 0

  /** @throws YamlFault if the text is no YAML, or too much of it */
  constructor(text: string, { line, budget, asPrograms = false }: YamlTreesOptions) {
    const read = yamlEvents(text, { line, budget, maxDepth })
    this.#text = read.text
    this.#events = read.events
    this.#lines = new TextLines(read.text, line)
    this.#budget = budget
    this.#asPrograms = asPrograms
  }

  /** Returns the documents, each with the line at which it begins. Called once. @throws YamlFault */
  read(): Tree[] {
    const documents: Tree[] = []
    while (this.#at < this.#events.length) {
      this.#at++ // start of the document
      this.#anchors = new Map()
      this.#aliases = 0
      const start = startOf(this.#events[this.#at] as Event)
      const before = this.characters
      const value = this.#node()
      documents.push({ value, line: this.#lines.at(Math.max(0, start)), characters: this.characters - before })
      this.#at++ // end of the document
    }
    return documents
  }

  /** Returns the extent of a map in a list near the root. */
  extentOf(item: object): Pick<Tree, 'line' | 'characters'> | undefined {
    const extent = this.#items.get(item)
    return extent && { line: this.#lines.at(extent.start), characters: extent.characters }
  }

  /** @param unquoted - the same text without words of the file */
  #fault(text: string, offset: number, unquoted = text): YamlFault {
    return new YamlFault(text, this.#lines.at(Math.max(0, offset)), unquoted)
  }

  #node(): unknown {
    const event = this.#events[this.#at++] as Event
    if (this.#asPrograms) this.#checkAlike(event)
    const hasAnchor = 'anchorStart' in event && event.anchorStart >= 0 && event.type !== EVENT_ID.ALIAS
    return hasAnchor ? this.#anchored(event) : this.#tree(event)
  }

  #checkAlike(event: Event): void {
    if ('tagStart' in event && event.tagStart >= 0) {
      const tag = this.#text.slice(event.tagStart, event.tagEnd)
      if (!plainTags.has(tag))
        throw this.#fault(
          `the tag ${tag.slice(0, 100)}: write the value without it`,
          event.tagStart,
          'a tag: write the value without it',
        )
    }
    if (event.type === EVENT_ID.SCALAR && event.style === SCALAR_STYLE.DOUBLE_QUOTED) {
      const isUnclear = /\\(?:\r\n|\r|\n)[ \t]*[\r\n]/.test(this.#text.slice(event.valueStart, event.valueEnd))
      if (isUnclear) throw this.#fault('an empty line behind \\ at the end of a line: write \\n', event.valueStart)
    }
    if (event.type === EVENT_ID.SCALAR && event.style === SCALAR_STYLE.PLAIN) {
      const isEmpty = event.valueEnd <= event.valueStart
      const bracket = this.#brackets.at(-1)
      if (isEmpty && bracket !== undefined) throw this.#fault('an empty value in brackets: write null or ""', bracket)
      const isMark = !isEmpty && /[?:]/.test(this.#text[event.valueStart] ?? '')
      if (isMark) throw this.#fault('a text that begins with ? or : wants quotes', event.valueStart)
    }
    if (!('anchorStart' in event) || event.anchorStart < 0) return
    const name = this.#text.slice(event.anchorStart, event.anchorEnd)
    if (!/^[\w-]+$/.test(name)) throw this.#fault('an anchor has letters, digits, - and _ alone', event.anchorStart)
  }

  #tree(event: Event): unknown {
    switch (event.type) {
      case EVENT_ID.SCALAR:
        return this.#scalar(event)
      case EVENT_ID.SEQUENCE:
        return this.#sequence(event)
      case EVENT_ID.MAPPING:
        return this.#mapping(event)
      case EVENT_ID.ALIAS:
        return this.#alias(event)
      default:
        throw new Error('the parser ended a node that it had not begun')
    }
  }

  #anchored(event: ScalarEvent | SequenceEvent | MappingEvent): unknown {
    const [before, deepest] = [this.characters, this.#deepest]
    this.#deepest = this.#depth
    const value = this.#tree(event)
    const [characters, height] = [this.characters - before, this.#deepest - this.#depth]
    this.#deepest = Math.max(deepest, this.#deepest)
    this.#anchors.set(this.#text.slice(event.anchorStart, event.anchorEnd), { value, characters, height })
    return value
  }

  #alias({ anchorStart: offset, anchorEnd }: AliasEvent): unknown {
    const name = this.#text.slice(offset, anchorEnd)
    if (++this.#aliases > maxAliases) throw this.#fault(`more than ${maxAliases} aliases`, offset)
    const anchored = this.#anchors.get(name)
    if (!anchored) throw this.#fault(`no anchor &${name} stands before`, offset, unanchored)
    this.#reach(this.#depth + anchored.height, offset)
    this.#add(anchored.characters, offset)
    return anchored.value
  }

  #sequence(event: SequenceEvent): unknown[] {
    const items: unknown[] = []
    this.#enter(event)
    for (let next = this.#peek(); next.type !== EVENT_ID.POP; next = this.#peek()) {
      const [start, before] = [startOf(next), this.characters]
      const item = this.#node()
      if (this.#depth <= 4 && isObject(item)) this.#items.set(item, { start, characters: this.characters - before })
      items.push(item)
    }
    this.#leave(event)
    return items
  }

  /** Reads a map. As in Go, later pairs win over merged ones, and merged ones over earlier pairs. */
  #mapping(event: MappingEvent): Record<string, unknown> | string {
    const map: Record<string, unknown> = {}
    const own = new Set<string>()
    this.#enter(event)
    const isPair = event.style === COLLECTION_STYLE.FLOW && this.#text[event.start] !== '{'
    for (let next = this.#peek(); next.type !== EVENT_ID.POP; next = this.#peek()) {
      const offset = startOf(next)
      if (this.#isMerge(next)) {
        this.#at++
        this.#merge(map, this.#node(), offset)
        continue
      }
      const isUnspaced = this.#isUnspaced(next)
      const key = isUnspaced ? `${getScalarValue(this.#text, next as ScalarEvent)}:` : this.#key(this.#node(), offset)
      if (isUnspaced) this.#at++
      if (isUnspaced && isPair) {
        this.#node() // the empty value
        this.#leave(event)
        return key
      }
      if (own.has(key)) throw this.#fault(`the map has the key ${key} twice`, offset, 'the map has a key twice')
      own.add(key)
      if (this.#asPrograms && (key === '<<' || Object.hasOwn(map, key))) throw this.#fault(unlikeMerge, offset)
      map[key] = this.#node()
    }
    this.#leave(event)
    return map
  }

  /**
   * True for a text in brackets whose `:` has no space after it: for Go's YAML the `:` is part of it, as in `[::1]`.
   *
   * @throws YamlFault: brackets follow
   */
  #isUnspaced(event: Event): boolean {
    if (event.type !== EVENT_ID.SCALAR || event.style !== SCALAR_STYLE.PLAIN || this.#brackets.length === 0)
      return false
    const { valueEnd: end } = event
    if (end < 0 || this.#text[end] !== ':' || !/[,[\]{}]/.test(this.#text[end + 1] ?? '')) return false
    if (/[[{]/.test(this.#text[end + 1] as string)) throw this.#fault('a space is to follow the : before brackets', end)
    return true
  }

  /** True for the key `<<` of a merge: plain and without a tag, or with the tag of merges. */
  #isMerge(event: Event): boolean {
    if (event.type !== EVENT_ID.SCALAR) return false
    const tag = event.tagStart < 0 ? '' : this.#text.slice(event.tagStart, event.tagEnd)
    const isMarked = tag === '' ? event.style === SCALAR_STYLE.PLAIN : mergeTags.has(tag)
    return isMarked && getScalarValue(this.#text, event) === '<<'
  }

  #merge(map: Record<string, unknown>, from: unknown, offset: number): void {
    const sources = Array.isArray(from) ? from.toReversed() : [from]
    for (const source of sources) {
      if (!isObject(source)) throw this.#fault('<< wants a map, or a list of maps', offset)
      const isDouble = () => Object.keys(source).some((key) => Object.hasOwn(map, key))
      if (this.#asPrograms && isDouble()) throw this.#fault(unlikeMerge, offset)
      Object.assign(map, source)
    }
  }

  #key(key: unknown, offset: number): string {
    const isKey = typeof key === 'string' || typeof key === 'boolean' || Number.isInteger(key)
    if (!isKey) throw this.#fault('a key of a map is text: write it in quotes', offset)
    if (key === '__proto__') throw this.#fault('the key __proto__ is not supported', offset)
    return String(key)
  }

  #scalar(event: ScalarEvent): string | number | boolean | null {
    const text = getScalarValue(this.#text, event)
    const offset = Math.max(event.valueStart, event.tagStart)
    this.#add(text.length + 3, offset)
    const tag = event.tagStart < 0 ? '' : this.#text.slice(event.tagStart, event.tagEnd)
    const value = tag ? goTaggedScalar(tag, text) : event.style === SCALAR_STYLE.PLAIN ? goScalar(text) : text
    if (value === undefined) throw this.#fault(`the value is no ${tag}`, offset)
    if (typeof value === 'bigint') throw this.#fault('the number cannot be kept exactly: write it in quotes', offset)
    const isJson = typeof value !== 'number' || Number.isFinite(value)
    if (!isJson) throw this.#fault('the value is no number of JSON', offset)
    return value
  }

  #peek(): Event {
    return this.#events[this.#at] as Event
  }

  #enter({ start, style }: SequenceEvent | MappingEvent): void {
    this.#depth++
    this.#reach(this.#depth, start)
    this.#add(2, start)
    if (style === COLLECTION_STYLE.FLOW) this.#brackets.push(start)
  }

  #leave({ style }: SequenceEvent | MappingEvent): void {
    this.#at++
    if (style === COLLECTION_STYLE.FLOW) this.#brackets.pop()
    this.#depth--
  }

  #reach(depth: number, offset: number): void {
    if (depth > maxDepth) throw this.#fault(`more than ${maxDepth} maps and lists inside one another`, offset)
    this.#deepest = Math.max(this.#deepest, depth)
  }

  #add(characters: number, offset: number): void {
    this.characters += characters
    this.#budget.characters -= characters
    if (this.#budget.characters >= 0) return
    throw this.#fault(
      `more than ${maxTreeCharacters} characters of values in the commit, with those that aliases stand for`,
      offset,
    )
  }
}

function startOf(event: Event): number {
  switch (event.type) {
    case EVENT_ID.SCALAR:
      return event.valueStart
    case EVENT_ID.SEQUENCE:
    case EVENT_ID.MAPPING:
      return event.start
    case EVENT_ID.ALIAS:
      return event.anchorStart
    default:
      return 0
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
