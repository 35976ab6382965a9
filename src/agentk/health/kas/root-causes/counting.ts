import { type KubernetesObject, kindOf, namespaceOf, textAt } from '../../../../kubernetes/object.ts'
import type { ArgoStatus } from '../../argo/health.ts'
import { severityOf } from '../finding.ts'
import { failureOf, isComplete, newestFinished } from '../jobs.ts'
import { isSummary, type Opinion } from '../opinion.ts'
import { isEnding, revisionOf } from '../read.ts'

/** A child that its parent counts. */
export interface Counted {
  readonly child: KubernetesObject
  /** its verdict counts as no worse than this */
  readonly atMost: ArgoStatus
}

/** Kinds whose counting depends on the other children of their parent. */
export const siblingKinds: ReadonlySet<string> = new Set(['apps/ReplicaSet', 'batch/Job'])

const uncounted: ReadonlySet<string> = new Set(['discovery.k8s.io/EndpointSlice', 'apps/ControllerRevision'])

/**
 * Returns the children of an object that count for it. Namespaced children do not count for a cluster-scoped object of
 * a kind of Kubernetes' own, such as a Namespace: anyone can name it as owner.
 *
 * @param now - ms since 1970
 */
export function countedOf(
  parent: KubernetesObject,
  children: readonly KubernetesObject[],
  now: number,
): readonly Counted[] {
  const isAnybodys = namespaceOf(parent) === '' && isKubernetesOwn(kindOf(parent))
  const known = children.filter((child) => !uncounted.has(kindOf(child)) && !(isAnybodys && namespaceOf(child) !== ''))
  switch (kindOf(parent)) {
    case 'apps/ReplicaSet':
    case 'apps/DaemonSet':
    case 'ReplicationController':
      return known.filter((child) => kindOf(child) !== 'Pod' || !isEnding(child)).map(fully)
    case 'apps/Deployment':
      return ofDeployment(known).map(fully)
    case 'batch/Job':
      return ofJob(parent, known, now)
    case 'batch/CronJob':
      return ofCronJob(known, now).map(fully)
    default:
      return known.map(fully)
  }
}

export const isKubernetesOwn = (kind: string) => !kind.includes('/') || /^(?:[a-z]+|[a-z.]+\.k8s\.io)\//.test(kind)

const fully = (child: KubernetesObject): Counted => ({ child, atMost: 'Degraded' })
const isReplicaSet = (child: KubernetesObject) => kindOf(child) === 'apps/ReplicaSet'

/** Drops the revisions before the last one. */
function ofDeployment(children: readonly KubernetesObject[]): readonly KubernetesObject[] {
  let newest = Number.NEGATIVE_INFINITY
  for (const child of children) if (isReplicaSet(child)) newest = Math.max(newest, revisionOf(child))
  return children.filter((child) => !isReplicaSet(child) || revisionOf(child) === newest)
}

/** Counts a failed attempt as no failure while there may be others. */
function ofJob(job: KubernetesObject, children: readonly KubernetesObject[], now: number): readonly Counted[] {
  if (isComplete(job, now)) return []
  const hasFailed = failureOf(job, now) !== undefined
  return children.map((child) => {
    const isTry = kindOf(child) === 'Pod' && textAt(child, 'status.phase') === 'Failed'
    return { child, atMost: isTry && !hasFailed ? 'Progressing' : 'Degraded' }
  })
}

/** Drops the runs before the last one that has an end. */
function ofCronJob(children: readonly KubernetesObject[], now: number): readonly KubernetesObject[] {
  const jobs = children.filter((child) => kindOf(child) === 'batch/Job')
  const newest = newestFinished(jobs, now)
  return children.filter((child) => {
    if (kindOf(child) !== 'batch/Job' || child === newest) return true
    return !isComplete(child, now) && failureOf(child, now) === undefined
  })
}

/**
 * Returns the verdict of a parent: its own, unless a worse one of its children counts. A summary takes Degraded. A
 * parent that nobody judges takes Degraded and Progressing. So does a kind of Kubernetes' own that is no summary: a
 * Deployment that names a Service as its owner is no root any more.
 *
 * @param worst - worst verdict of the counted children
 */
export function wordAbove(parent: KubernetesObject, { word, by }: Opinion, worst: ArgoStatus): ArgoStatus {
  const isWorse = severityOf(worst) > severityOf(word)
  if (!isWorse || by === 'users') return word
  const kind = kindOf(parent)
  if (worst === 'Degraded' && isSummary(kind)) return worst
  const isUnsaid = by === 'nobody' || (isKubernetesOwn(kind) && !isSummary(kind))
  return isUnsaid && (worst === 'Degraded' || worst === 'Progressing') ? worst : word
}
