import type { ObjectKey } from './object-key.ts'

/** A file of the project at the commit. */
export interface RepositoryFile {
  /** in the repository */
  readonly path: string
  readonly data: Uint8Array
}

/** What is wrong with a commit, or with an object that cannot be applied. */
export interface ManifestProblem {
  readonly file: string
  /** from 1; 0: the file as a whole */
  readonly line: number
  readonly text: string
}

/** As people read it. */
export function problemText({ file, line, text }: ManifestProblem): string {
  return file === '' ? text : `${file}:${line}: ${text}`
}

/** JSON as an API server reads it. */
export type ObjectTree = Readonly<Record<string, unknown>>

/** An object that a commit wants, without our marks. */
export interface Manifest {
  readonly key: ObjectKey
  /** of its group */
  readonly version: string
  /** normalised: what of it the API server is to keep */
  readonly object: ObjectTree
  readonly file: string
  readonly line: number
  /** of `object`, whatever the order of its keys: hex */
  readonly digest: string
}
