import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readBounds } from './bounds.ts'
import { circles, importsIn } from './imports.ts'
import { codeLines, prepositionsIn, proseCounts } from './prose.ts'
import { bannedWordsIn } from './words.ts'

/** A file of fewer lines counts as short, and may be less than one idea. */
const shortLines = 50

/** Names of classes that limit. */
const limiter = /^(?:export )?class \w*(?:Turns|Limits?|Limiter|Counters?|Buckets?|Budgets?|Quota|Rates?|Shares?)\b/gm

/** The shape of `src` in a checkout, without generated files. */
export interface Shape {
  readonly files: number
  readonly lines: number
  readonly 'lines that are neither comment nor blank': number
  readonly 'lines of the median file': number
  readonly 'files under 50 lines': number
  readonly 'interfaces that only their own file names': number
  readonly 'classes that limit, by their names': number
  readonly 'arrows from folder to folder': number
  readonly 'pairs of files that import one another': number
  readonly 'banned words in src': number
  readonly 'banned words in doc': number
  readonly 'bounds, as doc/reference/limits.md lists them': number
  readonly 'functions that begin with a preposition': number
  readonly 'comments and sentences that begin with a clause': number
  readonly 'sentences and cells with he, him or his': number
  readonly 'sentences over 30 words': number
  readonly 'cells of tables over 160 characters': number
}

/** @param root - a checkout's folder */
export function shapeOf(root: string): Shape {
  const source = join(root, 'src')
  const texts = new Map(
    globSync('**/*.ts', { cwd: source, exclude: ['proto/gen/**'] }).map((file) => [
      file,
      readFileSync(join(source, file), 'utf8'),
    ]),
  )
  const lines = [...texts.values()].map((text) => text.split('\n').length - 1).sort((one, other) => one - other)
  const imports = importsIn(source)
  const arrows = new Set(
    imports.flatMap(({ file, to, isFile }) =>
      isFile && dirname(file) !== dirname(to) ? `${dirname(file)} ${dirname(to)}` : [],
    ),
  )
  const names = [...globSync('doc/**/*.md', { cwd: root }), 'README.md']
  const pages = names.map((name) => readFileSync(join(root, name), 'utf8'))
  const all = [...texts.values()].join('\n')
  const prose = proseCounts(texts.values(), pages)
  const wordsOf = (all: Iterable<string>) => [...all].reduce((sum, text) => sum + bannedWordsIn(text).length, 0)
  return {
    files: lines.length,
    lines: lines.reduce((sum, count) => sum + count, 0),
    'lines that are neither comment nor blank': [...texts.values()].reduce((sum, text) => sum + codeLines(text), 0),
    'lines of the median file': lines[lines.length >> 1] ?? 0,
    'files under 50 lines': lines.filter((count) => count < shortLines).length,
    'interfaces that only their own file names': interfacesOfOneFile(texts),
    'classes that limit, by their names': all.match(limiter)?.length ?? 0,
    'arrows from folder to folder': arrows.size,
    'pairs of files that import one another': circles(imports).length,
    'banned words in src': wordsOf(texts.values()),
    'banned words in doc': wordsOf(pages),
    'bounds, as doc/reference/limits.md lists them': readBounds(source).length,
    'functions that begin with a preposition': prepositionsIn(all).length,
    'comments and sentences that begin with a clause': prose.begins,
    'sentences and cells with he, him or his': prose.pronouns,
    'sentences over 30 words': prose.long,
    'cells of tables over 160 characters': prose.cells,
  }
}

function interfacesOfOneFile(texts: ReadonlyMap<string, string>): number {
  const filesOf = new Map<string, number>()
  for (const text of texts.values()) {
    for (const name of new Set(text.match(/\b[A-Z]\w+\b/g))) filesOf.set(name, (filesOf.get(name) ?? 0) + 1)
  }
  const declared = [...texts.values()].flatMap((text) => [...text.matchAll(/^(?:export )?interface (\w+)/gm)])
  return declared.filter(([, name = '']) => filesOf.get(name) === 1).length
}
