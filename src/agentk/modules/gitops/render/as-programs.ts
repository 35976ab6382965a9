import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import { type Document, type ReadingOptions, readFiles } from '../manifests/read-yaml.ts'

/** What the YAML of helm and kustomize takes for something else than ours: an address could hide behind it. */
const otherwise: readonly (readonly [RegExp, string])[] = [
  [/[\u0085\u2028\u2029]/, 'a line ends by U+0085, U+2028 or U+2029: write it escaped, in quotes'],
  [/\ufeff/, 'a byte order mark (U+FEFF) stands behind the beginning: write it escaped, in quotes'],
  [/^---[^\S \t\r\n]/m, 'a space that is none of YAML stands behind ---: leave it out'],
  [/^%/m, 'a directive (%YAML, %TAG) stands in it: leave it out'],
]

/** Reads what decides over what a program fetches, only if the program reads it alike. */
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

/** @returns its line, and why */
function difference(text: string): [number, string] | undefined {
  for (const [form, why] of otherwise) {
    const at = text.search(form)
    if (at >= 0) return [text.slice(0, at).split('\n').length, why]
  }
  return undefined
}
