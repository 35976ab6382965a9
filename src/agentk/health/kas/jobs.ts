import { conditionsAt, type TimedCondition } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, kindOf, nameOf, namespaceOf, numberAt, textAt } from '../../../kubernetes/object.ts'
import { createdOf, timeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { failingAgain } from './failing-again.ts'
import { type Finding, finding, found, ranks } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'
import { refusedByEvents } from './refused.ts'
import { unreconciled } from './unreconciled.ts'

export function job(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const failed = failureOf(object, now)
  if (failed) {
    const { reason, message, since } = failed
    const last = reason.startsWith('Backoff') ? lastEnd(object, around) : undefined
    if (last) return last
    // findings on its Pods are more exact
    const rank = reason.startsWith('Backoff') ? ranks.summary : ranks.other
    const text = `${message}${detailOf(object, reason)}`
    return found(object, now, { reason: reason || 'Failed', text, rank, since, grace: 0 })
  }
  if (isComplete(object, now)) return undefined
  if (at(object, 'spec.suspend') === true) {
    const since = conditionsAt(object, now).find(({ type, status }) => type === 'Suspended' && status === 'True')?.since
    return finding('Suspended', { reason: 'Suspended', text: 'the Job is suspended', rank: ranks.other, since })
  }
  if (numberAt(object, 'spec.parallelism') === 0) {
    return finding('Suspended', { reason: 'Suspended', text: 'its parallelism is 0', rank: ranks.other })
  }
  const manager = textAt(object, 'spec.managedBy')
  if (manager !== '' && manager !== ownController && textAt(object, 'status.startTime') === '') {
    const text = `waits for ${manager}, which manages it`
    const since = createdOf(object, now)
    return found(object, now, { reason: 'WaitsForManager', text, rank: ranks.other, since, grace: undefined })
  }
  const refused = refusedByEvents(object, around, missingOfJob(object)) ?? unreconciled(object, around)
  if (refused) return refused
  const again = failingAgain(object, around, {
    desired: numberAt(object, 'spec.parallelism') ?? 1,
    grace: (numberAt(object, 'status.succeeded') ?? 0) > 0 ? undefined : 0,
  })
  if (again) return again
  const since = timeOf(textAt(object, 'status.startTime'), now) ?? createdOf(object, now)
  const text = 'the Job is not finished'
  return found(object, now, { reason: 'Running', text, rank: ranks.summary, since, grace: undefined })
}

/** Returns the remembered end of the last Pod. The controller deletes Pods of a Job that restarts containers. */
function lastEnd(object: KubernetesObject, around: Around): Finding | undefined {
  if (around.childrenOf(object).some((child) => kindOf(child) === 'Pod')) return undefined
  const ends = around.endsOf(object)
  const end = ends.reduce<PodEnd | undefined>((last, one) => (last && last.at >= one.at ? last : one), undefined)
  if (!end) return undefined
  return found(object, around.now, {
    reason: end.reason,
    text: `${end.text}; its Pod ${end.name} has been deleted`,
    rank: ranks.container,
    since: end.at,
    last: end.at,
    grace: 0,
    needs: [['Pod', namespaceOf(object)]],
  })
}

/** Controller of the Jobs that name no other one. */
const ownController = 'kubernetes.io/job-controller'

/** Returns details that the controller does not add to its reason. */
function detailOf(job: KubernetesObject, reason: string): string {
  const seconds = reason === 'DeadlineExceeded' ? numberAt(job, 'spec.activeDeadlineSeconds') : undefined
  if (seconds !== undefined) return `: activeDeadlineSeconds is ${seconds}`
  const indexes = /FailedIndexes/.test(reason) ? textAt(job, 'status.failedIndexes') : ''
  return indexes && `: ${indexes}`
}

const holds = ({ status }: TimedCondition) => status === 'True'

/** Returns the condition that it will not succeed, as soon as its controller knows it. */
export function failureOf(job: KubernetesObject, now: number): TimedCondition | undefined {
  const conditions = conditionsAt(job, now).filter(holds)
  return conditions.find(({ type }) => type === 'Failed') ?? conditions.find(({ type }) => type === 'FailureTarget')
}

export function isComplete(job: KubernetesObject, now: number): boolean {
  return conditionsAt(job, now).some(
    (one) => holds(one) && (one.type === 'Complete' || one.type === 'SuccessCriteriaMet'),
  )
}

/** Reason of a CronJob whose runs fail. */
export const lastRunFailed = 'LastRunFailed'

/** Returns the newest Job of a CronJob among those that have an end. */
export function newestFinished(jobs: readonly KubernetesObject[], now: number): KubernetesObject | undefined {
  let found: KubernetesObject | undefined
  for (const one of jobs) {
    if (!isComplete(one, now) && !failureOf(one, now)) continue
    if (!found || isNewer(one, found, now)) found = one
  }
  return found
}

function isNewer(one: KubernetesObject, other: KubernetesObject, now: number): boolean {
  const [created, before] = [createdOf(one, now) ?? 0, createdOf(other, now) ?? 0]
  return created === before ? nameOf(one) > nameOf(other) : created > before
}

/** Returns the number of Pods that it lacks. */
function missingOfJob(object: KubernetesObject): number {
  const count = (path: string) => numberAt(object, path) ?? 0
  const parallel = numberAt(object, 'spec.parallelism') ?? 1
  const completions = numberAt(object, 'spec.completions') ?? parallel
  if (textAt(object, 'status.completionTime') !== '') return 0
  return Math.min(parallel, completions - count('status.succeeded')) - count('status.active')
}
