import { conditionsAt, isUnobserved } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, kindOf, numberAt, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks } from './finding.ts'

/** Reason of a change that no controller has observed; `proto/views-json.ts` has it for readers of views. */
export const notReconciled = 'NotReconciled'
const rollingOut = 'RollingOut'
/** Time that a busy controller takes. ms */
const busyMs = minute

/** Finds that no controller has observed the workload's last change, or that none has begun it. */
export function unreconciled(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  // by the object alone, because not each caller may list the objects below it
  const isNew = isUntouched(object, now)
  if (!isNew && !isUnobserved(object)) return undefined
  const before = around.before(object)
  const isKnown = before?.reason === notReconciled
  const from = isNew ? createdOf(object, now) : before?.reason === rollingOut ? before.from : undefined
  const begun = isKnown ? (before.seen ?? now) : (from ?? now)
  const isLong = isKnown || now - begun >= busyMs
  return found(object, now, {
    reason: isLong ? notReconciled : rollingOut,
    text: isLong
      ? 'no controller has observed the change: does kube-controller-manager run?'
      : 'no controller has observed the change yet',
    rank: isLong ? ranks.foundation : ranks.summary,
    seen: begun,
    grace: isLong ? 0 : busyMs,
    from: begun,
  })
}

/** True if no controller has written its status. A workload that should have no Pods is never untouched. */
function isUntouched(object: KubernetesObject, now: number): boolean {
  if (numberAt(object, 'spec.replicas') === 0) return false
  if (conditionsAt(object, now).length > 0 || numberAt(object, 'status.observedGeneration') !== undefined) return false
  if (kindOf(object) === 'batch/Job') return textAt(object, 'status.startTime') === '' && !hasCounts(object)
  return !hasCounts(object)
}

const hasCounts = (object: KubernetesObject) =>
  Object.values((at(object, 'status') ?? {}) as object).some((value) => typeof value === 'number' && value > 0)
