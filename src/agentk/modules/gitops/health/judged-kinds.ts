import { kindKey } from '../../../../kubernetes/kind.ts'
import { hasArgoRule } from '../../../health/argo/argo.ts'
import { isJudged } from '../../../health/kas/findings.ts'
import { isCustom } from '../../../health/kas/opinion.ts'
import type { ClusterKind } from '../live/cluster-kinds.ts'

/**
 * True if objects of a kind can be unhealthy: by a rule, or because controllers write conditions of custom kinds. A
 * ConfigMap cannot, and a Secret is never read.
 */
export function isJudgedKind({ group, kind }: Pick<ClusterKind, 'group' | 'kind'>): boolean {
  const key = kindKey(group, kind)
  return isJudged(key) || hasArgoRule(key) || isCustom(key)
}
