import type { ObjectKey } from '../../../../kubernetes/key.ts'

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

/** An object that other tools take for a hook. */
export interface Hook {
  /** `helm.sh/hook: test` */
  readonly text: string
  /** it is an object like others here; else it is not made */
  readonly isMade: boolean
}

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
  /** other tools take it for a hook */
  readonly hook?: Hook
}

/** A manifest as it is kept: its bytes alone. `object` is made of them each time that it is asked for. */
export interface KeptManifest extends Manifest {
  readonly json: Uint8Array
}

export function keptManifest(about: Omit<Manifest, 'object'>, json: Uint8Array): KeptManifest {
  return {
    ...about,
    json,
    get object() {
      return treeOf(json)
    },
  }
}

/** A cheap check, without its tree: whether the manifest may have a field by this name. */
export function mayHaveField(manifest: Manifest, name: string): boolean {
  return mayHaveText(manifest, `"${name}"`)
}

/** The same of a text of its JSON. */
export function mayHaveText(manifest: Manifest, text: string): boolean {
  if (!('json' in manifest)) return true
  const { buffer, byteOffset, byteLength } = (manifest as KeptManifest).json
  return Buffer.from(buffer, byteOffset, byteLength).includes(text)
}

/** What JSON says, in UTF-8. */
export function treeOf(json: Uint8Array): ObjectTree {
  return JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString())
}

/** Of a commit, those that are named. */
export const maxProblems = 100

/** What is wrong with a commit, as far as it is named: who finds more may stop. */
export class Problems {
  readonly #named: ManifestProblem[] = []
  /** of all, also of those that are not named */
  count = 0

  /** Nothing is named any more. */
  get isFull(): boolean {
    return this.count > maxProblems
  }

  push(...problems: readonly ManifestProblem[]): void {
    this.#named.push(...problems.slice(0, maxProblems - this.#named.length))
    this.count += problems.length
  }

  /** At most `maxProblems`; the last one says that there are more. */
  list(): ManifestProblem[] {
    if (!this.isFull) return [...this.#named]
    const text = `and more: the first ${maxProblems - 1} are named`
    return [...this.#named.slice(0, maxProblems - 1), { file: '', line: 0, text }]
  }
}
