import type { ManifestProblem } from './manifest.ts'

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
