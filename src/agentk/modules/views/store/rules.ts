import { type KubernetesObject, kindOf } from '../../../../kubernetes/object.ts'
import { hasArgoRule } from '../../../health/argo/argo.ts'
import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import { type CheckedRules, CustomRules } from '../../../health/custom/custom-rules.ts'
import type { JudgedNow } from '../../../health/custom/judged-now.ts'
import type { RuleVerdicts } from '../../../health/kas/opinion.ts'
import { verdictOf } from '../../../health/verdict.ts'
import { cut, maxText } from '../projection/bounds.ts'
import { isJudgedBy } from '../projection/parts.ts'
import { hasProjector } from '../projection/projection.ts'
import type { Health } from './record.ts'

/** kinds whose last error is kept */
const maxProblems = 64

export interface RuleAnswer {
  readonly health: Health
  /** ms since 1970 at which time alone may change the health; undefined: never */
  readonly dueAt: number | undefined
  readonly verdicts: RuleVerdicts
}

/** Rules of health: users' rules before those of vendors, these before Argo CD's own; kstatus beside them. */
export class Rules {
  readonly #users: CustomRules
  readonly #vendors: CustomRules
  readonly #problems = new Map<string, string>()

  /** @param now - records which of users' rules is evaluated */
  constructor(users: readonly CustomRuleSource[], vendors: readonly CustomRuleSource[], now?: JudgedNow) {
    const onBroken = (kind: string, error: unknown) => this.#keep(kind, (error as Error).message)
    this.#users = new CustomRules(users, onBroken, now)
    this.#vendors = new CustomRules(vendors, onBroken)
  }

  /**
   * Finds out which of users' rules can be used.
   *
   * @param last - earlier forms that could, for rules that cannot
   */
  async checkUsers(last: readonly CustomRuleSource[] = []): Promise<CheckedRules> {
    return await this.#users.check(last)
  }

  /** Compiles the rules of a kind (`group/Kind`), before its objects come. */
  async ready(kind: string): Promise<void> {
    await (this.#users.has(kind) ? this.#users : this.#vendors).ready(kind)
  }

  /** Problems of rules in use, by `group/Kind`: the reason why a rule is not used, or its last error. */
  get problems(): ReadonlyMap<string, string> {
    return this.#problems
  }

  /**
   * True if more than the metadata of a kind is read: by a rule, or because it names other objects. Secrets are read by
   * their metadata alone, whatever rules say.
   *
   * @param kind - `group/Kind`
   */
  wantsStatus(kind: string): boolean {
    if (kind === 'Secret') return false
    return (
      hasArgoRule(kind) || hasProjector(kind) || isJudgedBy(kind) || this.#users.has(kind) || this.#vendors.has(kind)
    )
  }

  /** @param now - ms since 1970 */
  judge(object: KubernetesObject, now: number): RuleAnswer {
    let problem = ''
    let isUsers = false
    const { argo, kstatus, dueAt } = verdictOf(object, now, (one) => {
      const users = this.#users.judge(one)
      isUsers = users !== undefined
      const own = users ?? this.#vendors.judge(one)
      problem = own?.errors[0] ?? ''
      return own
    })
    if (problem) this.#keep(kindOf(object), problem)
    const health = {
      argo: argo?.status ?? '',
      kstatus: kstatus.status,
      argoText: cut(argo?.text || problem, maxText),
      kstatusText: cut(kstatus.text, maxText),
    } as const
    return { health, dueAt, verdicts: isUsers && argo ? { users: argo } : { argo } }
  }

  #keep(kind: string, problem: string): void {
    if (this.#problems.has(kind) || this.#problems.size < maxProblems) this.#problems.set(kind, cut(problem, maxText))
  }
}
