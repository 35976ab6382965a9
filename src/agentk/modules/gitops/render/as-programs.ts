import type { ManifestProblem, RepositoryFile } from '../manifests/manifest.ts'
import { type Document, readFiles } from '../manifests/read-yaml.ts'

/** Where a line ends for the YAML of helm and kustomize, not for ours: a comment could hide what they would fetch. */
const otherLineEnds = /[\u0085\u2028\u2029]/

/** Reads what decides over what a program fetches, only if the program reads it alike. */
export function readAsPrograms(files: readonly RepositoryFile[]): {
  documents: Document[]
  problems: ManifestProblem[]
} {
  const isOther = ({ data }: RepositoryFile) => otherLineEnds.test(Buffer.from(data).toString())
  const others = files.filter(isOther)
  const { documents, problems } = readFiles(files.filter((file) => !others.includes(file)))
  const text = 'a line ends by U+0085, U+2028 or U+2029: write it escaped, in quotes'
  return { documents, problems: [...problems, ...others.map(({ path }) => ({ file: path, line: 0, text }))] }
}
