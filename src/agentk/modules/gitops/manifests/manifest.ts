import type { ObjectKey } from '../../../../kubernetes/key.ts'

/** File of the project at the commit. */
export interface RepositoryFile {
  /** path in the repository */
  readonly path: string
  readonly data: Uint8Array
}

/** Problem of a commit, or of an object that cannot be applied. */
export interface ManifestProblem {
  readonly file: string
  /** from 1; 0: the whole file */
  readonly line: number
  readonly text: string
}

/** Returns the problem as text for people. */
export function problemText({ file, line, text }: ManifestProblem): string {
  return file === '' ? text : `${file}:${line}: ${text}`
}

/** JSON as an API server reads it. */
export type ObjectTree = Readonly<Record<string, unknown>>

/** Object that other tools treat as a hook. */
export interface Hook {
  /** `helm.sh/hook: test` */
  readonly text: string
  /** true: it is applied like other objects; false: it is not applied */
  readonly isMade: boolean
}

/** Object that a commit wants, without agentk's marks. */
export interface Manifest {
  readonly key: ObjectKey
  /** version of its API group */
  readonly version: string
  /** in the form that the API server has to keep */
  readonly object: ObjectTree
  readonly file: string
  readonly line: number
  /** digest of `object` with its keys in any order: hex */
  readonly digest: string
  /** set if other tools treat it as a hook */
  readonly hook?: Hook
}

/** Manifest that keeps its bytes alone. Each access to `object` parses them. */
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

/** True if the manifest may have a field of this name: a cheap check, without its tree. */
export function mayHaveField(manifest: Manifest, name: string): boolean {
  return mayHaveText(manifest, `"${name}"`)
}

/** True if the manifest's JSON may contain this text: as cheap. */
export function mayHaveText(manifest: Manifest, text: string): boolean {
  if (!('json' in manifest)) return true
  const { buffer, byteOffset, byteLength } = (manifest as KeptManifest).json
  return Buffer.from(buffer, byteOffset, byteLength).includes(text)
}

/** Parses JSON in UTF-8. */
export function treeOf(json: Uint8Array): ObjectTree {
  return JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString())
}

/** Limit of problems that are named for one commit. */
export const maxProblems = 100

/** Problems of a commit, up to the limit. A check may stop once that is reached. */
export class Problems {
  readonly #named: ManifestProblem[] = []
  /** number of all problems, also of those that are not named */
  count = 0

  /** No more problems are named. */
  get isFull(): boolean {
    return this.count > maxProblems
  }

  push(...problems: readonly ManifestProblem[]): void {
    this.#named.push(...problems.slice(0, maxProblems - this.#named.length))
    this.count += problems.length
  }

  /** Returns at most `maxProblems`; if there are more, the last one says so. */
  list(): ManifestProblem[] {
    if (!this.isFull) return [...this.#named]
    const text = `and more: the first ${maxProblems - 1} are named`
    return [...this.#named.slice(0, maxProblems - 1), { file: '', line: 0, text }]
  }
}
