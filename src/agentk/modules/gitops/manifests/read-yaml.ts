import { isUtf8 } from 'node:buffer'
import { maxObjectBytes, maxObjects } from '../../../../proto/gitops/limits.ts'
import { type ManifestProblem, type ObjectTree, Problems, type RepositoryFile } from './manifest.ts'
import { maxDocuments, type RoundBudget, roundBudget } from './round-budget.ts'
import { mayMakeSecret } from './secrets.ts'
import { YamlFault } from './yaml-events.ts'
import { bracketEnd, hasFormOfJson } from './yaml-text.ts'
import { isObject, type Tree, YamlTrees, type YamlTreesOptions } from './yaml-trees.ts'

/** Object that a YAML or JSON document has, or an item of a document that is a list. */
export interface Document {
  readonly object: ObjectTree
  readonly file: string
  /** line at which it begins, from 1 */
  readonly line: number
}

/** Limit of one object: its characters are up to twice its JSON, and include parts that are left out. */
export const maxObjectCharacters = 4 * maxObjectBytes

/** Limit of a document, above the largest file of a repository. Bytes */
const maxTextBytes = 6 * 1024 * 1024

export interface ReadingOptions extends Pick<YamlTreesOptions, 'asPrograms'> {
  /** budget of the commit, from which reading takes; default: a new one */
  readonly budget?: RoundBudget
  /** the documents of a file are kept, so that the limit of one document is for all of them together */
  readonly asOne?: boolean
}

/**
 * Reads manifests as kubectl does, by the rules of Go's YAML 1.1. The first problem of a file ends it, and leaves it
 * without documents. A key that a map has twice is a problem, though Go keeps the last one.
 */
export function readFiles(
  files: readonly RepositoryFile[],
  options: ReadingOptions = {},
): { documents: Document[]; problems: ManifestProblem[] } {
  const documents: Document[] = []
  const problems = new Problems()
  const reading = new YamlReading(problems, options)
  for (const file of files) {
    const [before, bad] = [documents.length, problems.count]
    for (const document of reading.documents(file)) documents.push(document)
    if (problems.count > bad) documents.length = before
  }
  return { documents, problems: problems.list() }
}

/** Reads the documents of one commit one after another, so that not all of them have to be kept. */
export class YamlReading {
  readonly #problems: Problems
  readonly #budget: RoundBudget
  readonly #asOne: boolean
  readonly #rules: Pick<YamlTreesOptions, 'asPrograms'>
  #objects = 0

  constructor(problems: Problems, { budget = roundBudget(), asOne = false, ...rules }: ReadingOptions = {}) {
    this.#problems = problems
    this.#budget = budget
    this.#asOne = asOne
    this.#rules = rules
  }

  /**
   * Yields the documents before the first problem, which is added to the problems. With a problem the file is not to be
   * used. Yields nothing once no more problems are named.
   */
  *documents(file: RepositoryFile): Generator<Document> {
    if (this.#problems.isFull) return
    try {
      yield* this.#documentsOf(file)
    } catch (error) {
      if (!(error instanceof YamlFault)) throw error
      this.#problems.push({ file: file.path, line: error.line, text: error.message })
    }
  }

  /** @throws YamlFault; for a text that perhaps is a Secret's, one without its words */
  #treesOf(text: string, line: number): { trees: YamlTrees; read: Tree[] } {
    try {
      const trees = new YamlTrees(text, { ...this.#rules, line, budget: this.#budget })
      return { trees, read: trees.read() }
    } catch (error) {
      if (!(error instanceof YamlFault) || !mayMakeSecret(text)) throw error
      throw new YamlFault(error.unquoted, error.line)
    }
  }

  *#documentsOf({ path: file, data }: RepositoryFile): Generator<Document> {
    const before = this.#budget.marks
    for (const { text, line } of texts(data)) {
      const marks = before - this.#budget.marks
      if (this.#asOne && marks > this.#budget.maxMarks) throw new YamlFault('too many values in one file', line)
      if (this.#budget.documents <= 0) throw new YamlFault(`more than ${maxDocuments} documents`, line)
      const { trees, read } = this.#treesOf(text, line)
      this.#budget.documents -= Math.max(1, read.length)
      for (const tree of read) {
        for (const { value: object, line, characters } of objectsOf(tree, trees)) {
          if (this.#objects++ >= maxObjects) throw new YamlFault(`more than ${maxObjects} objects`, line)
          if (characters > maxObjectCharacters) {
            throw new YamlFault(`the object is too large: ${characters} of ${maxObjectCharacters} characters`, line)
          }
          yield { object, file, line }
        }
      }
    }
  }
}

interface Text {
  readonly text: string
  /** line in its file at which it begins */
  readonly line: number
}

/** Splits a file into documents, so that no text is as long as a whole output of a program. */
function* texts(data: Uint8Array): Generator<Text> {
  if (!isUtf8(data)) throw new YamlFault('the file is no UTF-8 text')
  for (const { bytes, line: first } of pieces(data)) {
    if (bytes.length > maxTextBytes) {
      throw new YamlFault(`the document is too large: ${bytes.length} of ${maxTextBytes} bytes`, first)
    }
    const decoded = new TextDecoder().decode(bytes) // without its byte order mark
    for (const part of parts(decoded)) {
      refuseOtherBreaks(part, first - 1)
      for (const { text, line } of values(part)) yield { text, line: first + line - 1 }
    }
  }
}

/** Splits at each `---`, unless a line is a directive, which would be for the whole file. */
function* pieces(data: Uint8Array): Generator<{ readonly bytes: Uint8Array; readonly line: number }> {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength)
  const isDirected = bytes[0] === percent || ['\n%', '\r%', '\u2028%', '\u2029%'].some((text) => bytes.includes(text))
  let [start, line] = [0, 1]
  for (let end = bytes.indexOf('\n---'); end >= 0 && !isDirected; end = bytes.indexOf('\n---', end + 1)) {
    const next = bytes[end + '\n---'.length]
    if (next !== undefined && next !== 10 && next !== 32) continue
    yield { bytes: bytes.subarray(start, end + 1), line }
    for (let at = start; at <= end; at++) if (bytes[at] === 10) line++
    start = end + 1
  }
  yield { bytes: bytes.subarray(start), line }
}

const percent = '%'.charCodeAt(0)

/** Splits a text at each `---`, since each part costs a parser. From the first directive on, the rest is one part. */
function* parts(text: string): Generator<Text> {
  const directive = text.search(/^%/m)
  let [start, line] = [0, 1]
  for (const { index } of text.matchAll(/^---(?=\s|$)/gm)) {
    if (directive >= 0 && directive < index) break
    const part = text.slice(start, index)
    if (part === '') continue
    yield { text: part, line }
    line += part.split('\n').length - 1
    start = index
  }
  yield { text: text.slice(start), line }
}

/** Splits JSON values that follow each other without a line between them. */
function* values({ text, line: first }: Text): Generator<Text> {
  let [start, line] = [0, first]
  for (let next = /^\s*\{/.exec(text); next; ) {
    const end = bracketEnd(text, start + next[0].length) + 1
    next = /^\s*\{/.exec(text.slice(end))
    if (!next) break
    const value = text.slice(start, end)
    yield { text: value, line }
    line += value.split('\n').length - 1
    start = end
  }
  yield { text: text.slice(start), line }
}

/** Refuses line ends of YAML 1.1 alone: kubectl reads keys in what other readers take for a comment. */
function refuseOtherBreaks({ text, line }: Text, before: number): void {
  const at = text.search(/[\u0085\u2028\u2029]/)
  if (at < 0 || hasFormOfJson(text)) return
  const sign = text.charCodeAt(at).toString(16).toUpperCase().padStart(4, '0')
  const fault = `U+${sign} ends a line for kubectl and for few others: write "\\u${sign.toLowerCase()}" in double quotes`
  throw new YamlFault(fault, before + line + text.slice(0, at).split('\n').length - 1)
}

/** Yields the `items` of an object of any kind. An item without version and kind has the list's. */
function* objectsOf({ value, line, characters }: Tree, trees: YamlTrees): Generator<ObjectAt> {
  if (value === null) return
  if (!isObject(value)) throw new YamlFault('the document is no object', line)
  if (!('items' in value)) {
    yield { value, line, characters }
    return
  }
  const { kind, apiVersion, items } = value
  if (items === null) return
  if (!Array.isArray(items)) throw new YamlFault('items is to be a list, as of a kind List', line)
  const own = typeof kind === 'string' && { apiVersion, kind: kind.replace(/List$/, '') }
  for (const item of items) {
    if (!isObject(item)) throw new YamlFault(`an item of the ${kind} is no object`, line)
    const isNamed = item.kind || item.apiVersion
    const at = { line, characters, ...trees.extentOf(item) }
    yield* nested({ ...at, value: isNamed ? item : { ...own, ...item } }, trees)
  }
}

type ObjectAt = Tree & { readonly value: Record<string, unknown> }

function* nested(item: ObjectAt, trees: YamlTrees): Generator<ObjectAt> {
  const { items } = item.value
  if (!Array.isArray(items)) {
    yield item
    return
  }
  for (const value of items) {
    if (!isObject(value)) throw new YamlFault('an item of a list is no object', item.line)
    yield* nested({ ...item, ...trees.extentOf(value), value }, trees)
  }
}
