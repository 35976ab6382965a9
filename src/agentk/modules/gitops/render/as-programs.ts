import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import { type Document, type ReadingOptions, readFiles } from '../manifests/read-yaml.ts'

/** Texts that the YAML of helm and kustomize reads differently than agentk: an address could hide behind them. */
const otherwise: readonly (readonly [RegExp, string])[] = [
  [/[\u0085\u2028\u2029]/, 'a line ends by U+0085, U+2028 or U+2029: write it escaped, in quotes'],
  [/\ufeff/, 'a byte order mark (U+FEFF) stands behind the beginning: write it escaped, in quotes'],
  [/^---[^\S \t\r\n]/m, 'a space that is none of YAML stands behind ---: leave it out'],
  [/^%/m, 'a directive (%YAML, %TAG) stands in it: leave it out'],
]

/** Reads files that decide what a program fetches. A file that the program may read differently is a problem. */
export function readAsPrograms(
  files: readonly RepositoryFile[],
  options: ReadingOptions,
): { documents: Document[]; problems: ManifestProblem[] } {
  const alike: RepositoryFile[] = []
  const others: ManifestProblem[] = []
  for (const file of files) {
    const [line, text] = difference(new TextDecoder().decode(file.data)) ?? []
    if (text === undefined) alike.push(file)
    else others.push({ file: file.path, line: line ?? 0, text })
  }
  const { documents, problems } = readFiles(alike, { ...options, asPrograms: true, asOne: true })
  return { documents, problems: [...problems, ...others] }
}

/** @returns the line and the reason; undefined: none */
function difference(text: string): [number, string] | undefined {
  for (const [form, why] of otherwise) {
    const at = text.search(form)
    if (at >= 0) return [text.slice(0, at).split('\n').length, why]
  }
  return undefined
}
