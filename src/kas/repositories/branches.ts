import { KasError } from '../../lib/errors.ts'
import type { CommitId } from './repositories.ts'

/** A branch of a repository, and its commit. */
export interface Branch {
  readonly ref: string
  readonly commit: CommitId
}

const prefix = 'refs/heads/'
/** branches that an error names */
const maxNamed = 5
/** characters of a branch's name that an error shows */
const maxNameLength = 100

/** The branches of a repository. Counts all and keeps the few that an error names: a repository may have millions. */
export class Branches {
  readonly #first: Branch[] = []
  #count = 0

  /** Counts the ref if it is a branch. */
  add(ref: string, commit: CommitId): void {
    if (!ref.startsWith(prefix)) return
    this.#count += 1
    if (this.#first.length < maxNamed) this.#first.push({ ref, commit })
  }

  get isEmpty(): boolean {
    return this.#count === 0
  }

  /** The only branch; undefined: there are several, or none. */
  get only(): Branch | undefined {
    return this.#count === 1 ? this.#first[0] : undefined
  }

  /**
   * Makes the error REF_NOT_FOUND.
   *
   * @param names - the branch that HEAD names, if `ref` is HEAD and that branch is known
   */
  notFound(ref: string, names?: string): KasError {
    const branches = this.#first.map((branch) => branch.ref.slice(prefix.length, prefix.length + maxNameLength))
    return new KasError({
      code: 'REF_NOT_FOUND',
      ref,
      ...(names === undefined ? {} : { names }),
      ...(branches.length > 0 ? { branches, count: this.#count } : {}),
    })
  }
}
