import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import type { BrokenRule } from '../../../health/custom/custom-rules.ts'
import type { JudgedRule } from '../../../health/custom/judged-now.ts'
import type { RuleSources } from './rule-sources.ts'

/** Without a rule, in whatever form, that kept the thread silent for so many seconds. */
export function putAside(sources: RuleSources, { kind, part }: JudgedRule, seconds: number): RuleSources {
  const others = (rules: readonly CustomRuleSource[]) => rules.filter((one) => one.kind !== kind)
  const problem = `${part || 'it'} took more than ${seconds} s for one object, or to be compiled`
  const aside: BrokenRule = { kind, problem, isKept: false, isAside: true }
  const { users, last, unread } = sources
  return { ...sources, users: others(users), last: others(last), unread: [...unread, aside] }
}
