import { hasArgoRule } from '../../../health/argo/argo.ts'
import { isJudged } from '../../../health/kas/findings.ts'
import { isCustom } from '../../../health/kas/opinion.ts'

/**
 * True if objects of a kind (`group/Kind`) can be unhealthy without a user's rule: by a rule, or because controllers write
 * conditions of custom kinds. A ConfigMap cannot.
 */
export function isJudgedKind(kind: string): boolean {
  return isJudged(kind) || hasArgoRule(kind) || isCustom(kind)
}
