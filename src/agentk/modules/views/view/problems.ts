import { Listeners } from '../../../../lib/listeners.ts'
import type { BrokenRule } from '../../../health/custom/custom-rules.ts'
import { isLike } from '../../../health/custom/kind-pattern.ts'

/** The most that a view names, and characters of one. */
const maxProblems = 20
const maxText = 512

/** What is wrong with views.yaml as it stands now. */
export class Problems {
  #unusable = ''
  #rules: readonly BrokenRule[] = []
  readonly #listeners = new Listeners()

  /** @param problem - why none of it can be used; empty: it can */
  setUnusable(problem: string): void {
    this.#unusable = problem
    this.#listeners.notify()
  }

  setRules(broken: readonly BrokenRule[]): void {
    this.#rules = broken
    this.#listeners.notify()
  }

  /** Called at each change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /**
   * In words: a rule is named to those who may list a kind that it is for, the file to all.
   *
   * @param kinds - `group/Kind` of those that the caller may list, where the scope is
   */
  of(kinds: readonly string[]): { readonly problems?: readonly string[] } {
    const rules = this.#rules.filter((rule) => kinds.some((kind) => isLike(rule.kind, kind)))
    const texts = [
      ...(this.#unusable
        ? [`views.yaml cannot be used, the last good one stays: ${this.#unusable.slice(0, maxText)}`]
        : []),
      ...rules.map(textOf),
    ]
    return texts.length > 0 ? { problems: texts.slice(0, maxProblems) } : {}
  }
}

function textOf({ kind, problem, isKept, isAside }: BrokenRule): string {
  if (isAside) return `rule of health ${kind} is put aside until views.yaml changes: ${problem.slice(0, maxText)}`
  const then = isKept ? 'cannot be used, its last good form stays' : 'is not used, and no earlier form of it is known'
  return `rule of health ${kind} ${then}: ${problem.slice(0, maxText)}`
}
