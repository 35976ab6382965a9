import type { CustomRuleSource } from '../../../health/custom/custom-rule-schema.ts'
import type { BrokenRule } from '../../../health/custom/custom-rules.ts'
import type { JudgedRule } from '../../../health/custom/judged-now.ts'
import type { RuleSources } from '../../../health/custom/rule-sources.ts'

/** Bound of rules that facts name. */
const maxNamed = 10
/** characters of the text about one of them */
const maxText = 256

/** Puts aside all forms of a rule that kept the thread silent for so many seconds. */
export function putAside(sources: RuleSources, judged: JudgedRule, seconds: number): RuleSources {
  const { kind } = judged
  const others = (rules: readonly CustomRuleSource[]) => rules.filter((one) => one.kind !== kind)
  const problem = `${placeOf(sources, judged)} took more than ${seconds} s for one object, or to be compiled`
  const aside: BrokenRule = { kind, problem, isKept: false, isAside: true }
  const { users, last, unread } = sources
  return { ...sources, users: others(users), last: others(last), unread: [...unread, aside] }
}

/**
 * Place of a rule in views.yaml: `health[3].rules[0]`, or `health[3]` without a part. The first entry of a kind counts.
 */
export function placeOf({ named }: Pick<RuleSources, 'named'>, { kind, part }: JudgedRule): string {
  return [`health[${named.indexOf(kind)}]`, part].filter(Boolean).join('.')
}

/** Rules that are put aside, for users of `kas status`: no object is named. */
export function asideTexts({ unread }: Pick<RuleSources, 'unread'>): readonly string[] {
  const aside = unread.filter(({ isAside }) => isAside)
  return aside.slice(0, maxNamed).map(({ kind, problem }) => `${kind}: ${problem}`.slice(0, maxText))
}
