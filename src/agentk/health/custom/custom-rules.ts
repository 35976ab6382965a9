import { setImmediate } from 'node:timers/promises'
import { type KubernetesObject, kindOf } from '../../../kubernetes/object.ts'
import type { CustomHealth, CustomRule } from './custom-rule.ts'
import type { CustomRuleSource } from './custom-rule-schema.ts'
import type { JudgedNow } from './judged-now.ts'
import { isLike } from './kind-pattern.ts'

/** A rule that cannot be used at present. */
export interface BrokenRule {
  /** `group/Kind` as in the rule */
  readonly kind: string
  readonly problem: string
  /** its last usable form is in use */
  readonly isKept: boolean
  /** the rule is usable, but blocked the thread of views: it is not used until views.yaml changes */
  readonly isAside?: boolean
}

/** Rules by kind. Each is compiled once objects of its kind are known. CEL itself is loaded with the first rule. */
export class CustomRules {
  #sources: readonly CustomRuleSource[]
  /** undefined: the rule cannot be used */
  readonly #byKind = new Map<string, { readonly named: string; readonly rule: CustomRule } | undefined>()
  readonly #onBroken: (kind: string, error: unknown) => void
  readonly #now: JudgedNow | undefined

  /**
   * @param onBroken - receives a rule that is not used, and the reason
   * @param now - records which rule is evaluated
   */
  constructor(sources: readonly CustomRuleSource[], onBroken: (kind: string, error: unknown) => void, now?: JudgedNow) {
    this.#sources = sources
    this.#onBroken = onBroken
    this.#now = now
  }

  /** True if there is a rule for the kind, usable or not. */
  has(kind: string): boolean {
    return this.#find(kind) !== undefined
  }

  /**
   * Finds out which rules can be used. A rule that cannot be used is replaced by its last usable form. Without one, its
   * kind has no rule.
   *
   * @param last - usable forms of earlier rules
   */
  async check(last: readonly CustomRuleSource[] = []): Promise<CheckedRules> {
    if (this.#sources.length === 0) return { good: [], broken: [] }
    const { CustomRule } = await import('./custom-rule.ts')
    const good: CustomRuleSource[] = []
    const broken: BrokenRule[] = []
    const used: CustomRuleSource[] = []
    for (const source of this.#sources) {
      await setImmediate() // each may take long
      const { kind } = source
      const problemIn = (one: CustomRuleSource) => this.#during(kind, '', () => problemOf(CustomRule, one))
      const problem = problemIn(source)
      if (problem === undefined) {
        good.push(source)
        used.push(source)
        continue
      }
      const kept = last.filter((one) => one.kind === kind && problemIn(one) === undefined).slice(0, 1)
      broken.push({ kind, problem, isKept: kept.length > 0 })
      if (kept.length === 0) this.#onBroken(kind, new Error(problem))
      used.push(...kept)
    }
    this.#sources = used
    return { good, broken }
  }

  /** Compiles the rule of a kind, so that its objects can be judged. */
  async ready(kind: string): Promise<void> {
    const source = this.#find(kind)
    if (!source || this.#byKind.has(kind)) return
    const { CustomRule } = await import('./custom-rule.ts')
    const rule = this.#during(source.kind, '', () => this.#compile(CustomRule, source, kind))
    this.#byKind.set(kind, rule && { named: source.kind, rule })
  }

  /** @returns undefined: no rule is for its kind, or the rule is not ready */
  judge(object: KubernetesObject): CustomHealth | undefined {
    const found = this.#byKind.get(kindOf(object))
    if (!found) return undefined
    const { namespace = '', name = '' } = (object.metadata ?? {}) as { namespace?: string; name?: string }
    const begun = (rule: number) => this.#now?.at(rule)
    return this.#during(found.named, `${namespace}/${name}`, () => found.rule.judge(object, begun))
  }

  #during<T>(kind: string, object: string, evaluate: () => T): T {
    return this.#now ? this.#now.during(kind, object, evaluate) : evaluate()
  }

  #compile(of: typeof CustomRule, source: CustomRuleSource, kind: string): CustomRule | undefined {
    try {
      return new of(source)
    } catch (error) {
      this.#onBroken(kind, error)
      return undefined
    }
  }

  /** Finds the rule of a kind: the exact one before a pattern. */
  #find(kind: string): CustomRuleSource | undefined {
    return this.#sources.find((one) => one.kind === kind) ?? this.#sources.find((one) => isLike(one.kind, kind))
  }
}

export interface CheckedRules {
  readonly good: readonly CustomRuleSource[]
  readonly broken: readonly BrokenRule[]
}

function problemOf(of: typeof CustomRule, source: CustomRuleSource): string | undefined {
  try {
    new of(source)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
