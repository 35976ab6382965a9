import type { Logger } from '../../../../lib/log.ts'
import { ResponseAllowList } from './response-allow-list.ts'
import type { ResponseRules } from './response-head.ts'
import { VersionSkew } from './version-skew.ts'

export interface ResponseRuleOptions {
  /** what an agent's version is compared with, `vN.N.N`; absent: no warning is given */
  readonly versions?: { readonly kas: string; readonly gitlab: string }
  /** names of headers that pass beside the well-known ones; absent: all that are not removed pass */
  readonly allowedResponseHeaders?: readonly string[]
}

/** What is done with a cluster's answers, beside what always is. */
export function responseRules(
  { versions, allowedResponseHeaders: allowed }: ResponseRuleOptions,
  log: Logger,
): Omit<ResponseRules, 'via'> {
  return {
    ...(versions ? { skew: new VersionSkew(versions) } : {}),
    ...(allowed ? { allowList: new ResponseAllowList(log, allowed) } : {}),
  }
}
