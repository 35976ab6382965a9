import { Listeners } from '../../../../lib/listeners.ts'
import type { BrokenRule } from '../../../health/custom/custom-rules.ts'
import { isLike } from '../../../health/custom/kind-pattern.ts'

/** Bound of problems that a view names. */
const maxProblems = 20
/** characters of one of them */
const maxText = 512

/** Problems of the current views.yaml. */
export class Problems {
  #unusable = ''
  #rules: readonly BrokenRule[] = []
  readonly #listeners = new Listeners()

  /** @param problem - reason why the file cannot be used; empty: it can */
  setUnusable(problem: string): void {
    this.#unusable = problem
    this.#listeners.notify()
  }

  setRules(broken: readonly BrokenRule[]): void {
    this.#rules = broken
    this.#listeners.notify()
  }

  /** Calls the listener at each change, until the returned function is called. */
  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener)
  }

  /**
   * Problems in words. A problem of a rule is for callers who may list a kind of the rule, one of the file is for all.
   *
   * @param kinds - `group/Kind` of those that the caller may list in the scope
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
