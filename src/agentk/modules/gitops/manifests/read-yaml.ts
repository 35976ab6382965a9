import { isUtf8 } from 'node:buffer'
import { maxObjectBytes, maxObjects } from '../../../../proto/gitops-json.ts'
import type { ManifestProblem, ObjectTree, RepositoryFile } from './manifest.ts'
import { isObject, maxRoundMarks, type Tree, YamlFault, YamlTrees, type YamlTreesOptions } from './yaml-trees.ts'

/** A YAML or JSON document that is an object, or an item of one that is a list. */
export interface Document {
  readonly object: ObjectTree
  readonly file: string
  /** from 1: where it begins */
  readonly line: number
}

/** Of all documents of a round, in characters of JSON, what aliases stand for each time. */
export const maxTreeCharacters = 64 * 1024 * 1024
/** Of one object: at most twice its JSON, and what is left out of it. */
export const maxObjectCharacters = 4 * maxObjectBytes
/** Of a round, empty ones included: each costs its parser. */
export const maxDocuments = 2 * maxObjects

/**
 * Reads manifests as kubectl does, by the rules of Go's YAML 1.1. A file with a problem has no documents; the first
 * problem of a file ends it. Keys that a map has twice are a problem, of which Go keeps the last.
 */
export function readFiles(
  files: readonly RepositoryFile[],
  rules: Pick<YamlTreesOptions, 'asPrograms'> = {},
): { documents: Document[]; problems: ManifestProblem[] } {
  const documents: Document[] = []
  const problems: ManifestProblem[] = []
  let [maxCharacters, marksLeft, left] = [maxTreeCharacters, maxRoundMarks, maxDocuments]
  for (const { path: file, data } of files) {
    const before = documents.length
    try {
      for (const { text, line } of parts(decoded(data))) {
        if (left <= 0) throw new YamlFault(`more than ${maxDocuments} documents`, line)
        const trees = new YamlTrees(text, { ...rules, line, maxCharacters, marksLeft })
        marksLeft -= trees.marks
        const read = trees.read()
        left -= Math.max(1, read.length)
        for (const document of read) addDocument(document, { file, trees, documents })
        maxCharacters -= trees.characters
      }
    } catch (error) {
      if (!(error instanceof YamlFault)) throw error
      documents.length = before
      problems.push({ file, line: error.line, text: error.message })
    }
  }
  return { documents, problems }
}

/** Without its byte order mark. */
function decoded(data: Uint8Array): string {
  if (!isUtf8(data)) throw new YamlFault('the file is no UTF-8 text')
  return new TextDecoder().decode(data)
}

/** One after another from `---` to `---`, as each costs its parser; from the first with a directive on they are one. */
function* parts(text: string): Generator<{ readonly text: string; readonly line: number }> {
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

/** A kind that ends in `List` and has `items` stands for these, which need not repeat its version and kind. */
function addDocument(
  { value, line, characters }: Tree,
  to: { readonly file: string; readonly trees: YamlTrees; readonly documents: Document[] },
): void {
  if (value === null) return
  if (!isObject(value)) throw new YamlFault('the document is no object', line)
  const { kind, apiVersion, items } = value
  if (typeof kind !== 'string' || !kind.endsWith('List') || !Array.isArray(items)) {
    const { documents, file } = to
    if (documents.length === maxObjects) throw new YamlFault(`more than ${maxObjects} objects`, line)
    if (characters > maxObjectCharacters) {
      throw new YamlFault(`the object is too large: ${characters} of ${maxObjectCharacters} characters`, line)
    }
    documents.push({ object: value, file, line })
    return
  }
  const own = kind === 'List' ? {} : { apiVersion, kind: kind.slice(0, -'List'.length) }
  for (const item of items) {
    if (!isObject(item)) throw new YamlFault(`an item of the ${kind} is no object`, line)
    addDocument({ line, characters, ...to.trees.extentOf(item), value: { ...own, ...item } }, to)
  }
}
