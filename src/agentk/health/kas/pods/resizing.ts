import { conditionAt } from '../../../../kubernetes/conditions.ts'
import type { KubernetesObject } from '../../../../kubernetes/object.ts'
import { type Finding, found, minute, ranks } from '../finding.ts'

/** The kubelet tries what it has deferred, or failed at, again. ms */
const graces: Readonly<Record<string, number | undefined>> = { Infeasible: minute, Error: 2 * minute }

/** A running Pod whose resources are to change in place, and do not yet. */
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
