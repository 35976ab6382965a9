import { type CustomRuleSource, customRuleSchema, maxKindLength, maxRules } from './custom-rule-schema.ts'
import type { BrokenRule } from './custom-rules.ts'
import { vendorRules } from './vendors.ts'

/** Rules of health, read but not compiled: the code that reads them stays out of the thread. */
export interface RuleSources {
  readonly users: readonly CustomRuleSource[]
  readonly vendors: readonly CustomRuleSource[]
  /** users' rules: earlier forms that could be used */
  readonly last: readonly CustomRuleSource[]
  /** users' rules that cannot be read; `users` has their last good form, if there is one */
  readonly unread: readonly BrokenRule[]
  /** kinds of the list `health` in views.yaml, in its order; empty: an entry without a kind */
  readonly named: readonly string[]
}

/** Reads rules, and remembers the last usable forms of users' rules: they replace forms that cannot be used. */
export class RuleReader {
  readonly #vendors: readonly CustomRuleSource[]
  /** kinds of users' rules that views.yaml names now */
  #named: ReadonlySet<string> = new Set()
  /** at most as many as users may have rules */
  #last: readonly CustomRuleSource[] = []

  constructor(vendors: readonly CustomRuleSource[]) {
    this.#vendors = vendors
  }

  /** @param health - list `health` of views.yaml */
  read(health: readonly unknown[]): RuleSources {
    const last = this.#last
    const unread: BrokenRule[] = []
    const users = health.flatMap((one, index) => {
      const read = customRuleSchema.safeParse(one)
      if (read.success && index < maxRules) return [read.data]
      const kind = kindIn(one) ?? `rule ${index + 1}`
      const kept = index < maxRules ? last.filter((rule) => rule.kind === kind).slice(0, 1) : []
      const issues = read.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
      const problem = index < maxRules ? issues.join('; ') : `more than ${maxRules} rules`
      unread.push({ kind, problem, isKept: kept.length > 0 })
      return kept
    })
    const named = health.slice(0, maxRules).map((one) => kindIn(one) ?? '')
    this.#named = new Set(named)
    return { users, vendors: this.#vendors, last, unread, named }
  }

  /** Remembers the rules of `read` that can be used, once they were compiled. */
  used(good: readonly CustomRuleSource[]): void {
    const isGood = new Set(good.map(({ kind }) => kind))
    this.#last = [...good, ...this.#last.filter(({ kind }) => this.#named.has(kind) && !isGood.has(kind))]
  }
}

export async function ruleReader(): Promise<RuleReader> {
  return new RuleReader(await vendorRules())
}

function kindIn(rule: unknown): string | undefined {
  const { kind } = Object(rule) as { readonly kind?: unknown }
  return typeof kind === 'string' ? kind.slice(0, maxKindLength) : undefined
}
