import { conditionAt } from '../../../../kubernetes/conditions.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { type Finding, found, minute, ranks } from '../finding.ts'

/** Grace by reason: the kubelet tries again what it has deferred, or failed at. ms */
const graces: Readonly<Record<string, number | undefined>> = { Infeasible: minute, Error: 2 * minute }

/** Judges a running Pod whose resources should change in place, and have not yet. */
export function resizeOf(pod: KubernetesObject, now: number): Finding | undefined {
  const pending = conditionAt(pod, 'PodResizePending', now)
  const going = conditionAt(pod, 'PodResizeInProgress', now)
  const unfinished = [pending, going].filter((one) => one?.status === 'True')
  const condition = unfinished.find((one) => one && one.reason in graces) ?? unfinished[0]
  if (!condition) return undefined
  const { type, reason, message, since } = condition
  const is = type === 'PodResizePending' ? reason.toLowerCase() || 'pending' : reason ? 'failing' : 'in progress'
  return found(pod, now, {
    reason: reason === 'Error' ? type : reason || type,
    text: `its resize is ${is}${message && `: ${message}`}`,
    rank: ranks.pod,
    since,
    grace: graces[reason],
  })
}
