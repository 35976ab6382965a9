import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { listAt, textAt } from '../../../kubernetes/object.ts'
import { current, failed, inProgress, type KstatusRule } from './status.ts'

/** A Pod has so long to be scheduled before it is said that it cannot be. ms */
const scheduleWindowMs = 15_000

export const pod: KstatusRule = (object, now) => {
  const conditions = conditionsOf(object)
  const phase = textAt(object, 'status.phase')
  switch (phase) {
    case 'Succeeded':
      return current('Pod has completed successfully')
    case 'Failed':
      return current('Pod has completed, but not successfully')
    case 'Running': {
      if (conditions.some(({ type, status }) => type === 'Ready' && status === 'True')) return current('Pod is Ready')
      const looping = listAt(object, 'status.containerStatuses')
        .filter((container) => textAt(container, 'state.waiting.reason') === 'CrashLoopBackOff')
        .map((container) => textAt(container, 'name'))
      if (looping.length > 0) {
        return failed('ContainerCrashLooping', `Containers in CrashLoop state: ${looping.join()}`)
      }
      return inProgress('PodRunningNotReady', 'Pod is running but is not Ready')
    }
    case 'Pending': {
      const isUnschedulable = conditions.some(
        ({ type, status, reason }) => type === 'PodScheduled' && status === 'False' && reason === 'Unschedulable',
      )
      if (!isUnschedulable) return inProgress('PodPending', 'Pod is in the Pending phase')
      const dueAt = Date.parse(textAt(object, 'metadata.creationTimestamp')) + scheduleWindowMs
      return now < dueAt
        ? { ...inProgress('PodNotScheduled', 'Pod has not been scheduled'), dueAt }
        : failed('PodUnschedulable', 'Pod could not be scheduled')
    }
    case '':
      return inProgress('PodNotObserved', 'Pod phase not available')
    default:
      return { status: 'Unknown', reason: '', text: `unknown phase ${phase}` }
  }
}
