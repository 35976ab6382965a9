import type { Logger } from '../../../lib/log.ts'
import { type CustomRuleSource, customRuleSchema, maxRules } from '../../health/custom/custom-rule-schema.ts'

/** Rules of health, read and not compiled: what reads them stays out of the thread. */
export interface RuleSources {
  readonly users: readonly CustomRuleSource[]
  readonly vendors: readonly CustomRuleSource[]
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

export type UsersRules = typeof usersRules
