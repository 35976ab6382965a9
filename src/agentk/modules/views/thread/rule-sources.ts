import type { Logger } from '../../../../lib/log.ts'
import { type CustomRuleSource, customRuleSchema, maxRules } from '../../../health/custom/custom-rule-schema.ts'
import { vendorRules } from '../../../health/custom/vendors.ts'

/** Rules of health, read and not compiled: what reads them stays out of the thread. */
export interface RuleSources {
  readonly users: readonly CustomRuleSource[]
  readonly vendors: readonly CustomRuleSource[]
}

export interface RuleReader {
  readonly vendors: readonly CustomRuleSource[]
  users(health: readonly unknown[], log: Logger): readonly CustomRuleSource[]
}

export async function ruleReader(): Promise<RuleReader> {
  return { vendors: await vendorRules(), users: usersRules }
}

/** @param health - of views.yaml: what cannot be read of it is told, and left out */
export function usersRules(health: readonly unknown[], log: Logger): CustomRuleSource[] {
  return health.flatMap((one, index) => {
    const problem = index < maxRules ? undefined : `more than ${maxRules} rules`
    const read = customRuleSchema.safeParse(one)
    if (read.success && !problem) return [read.data]
    const issues = read.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
    log.warn({ rule: index + 1, problem: problem ?? issues.join('; ') }, 'A rule of health is not used')
    return []
  })
}
