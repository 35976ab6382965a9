import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { at, listAt, textAt } from '../../../kubernetes/object.ts'
import { type ArgoRule, degraded, healthy, progressing, suspended, unknown } from './health.ts'

/** That a condition is there counts, whatever its status: one that was resumed is Healthy. */
export const job: ArgoRule = (object) => {
  const conditions = conditionsOf(object)
  const failed = conditions.findLast(({ type }) => type === 'Failed')
  if (failed) return degraded(failed.message)
  const last = conditions.findLast(({ type }) => type === 'Complete' || type === 'Suspended')
  if (!last) return progressing()
  const isSuspended = conditions.some(({ type, status }) => type === 'Suspended' && status === 'True')
  return isSuspended ? suspended(last.message) : healthy(last.message)
}

export const cronJob: ArgoRule = (object) => {
  if (at(object, 'spec.suspend') === true) return healthy('CronJob is Suspended')
  if (object.status === undefined || object.status === null) return progressing('Waiting for CronJob')
  const scheduled = textAt(object, 'status.lastScheduleTime')
  if (scheduled === '') return healthy('CronJob has not been scheduled yet')
  const succeeded = textAt(object, 'status.lastSuccessfulTime')
  if (succeeded === '') return healthy('The CronJob never completed successfully. It may not be healthy')
  if (listAt(object, 'status.active').length > 0) {
    return healthy('The job is running. Its last execution may not have been successful')
  }
  // both as the API server writes them: in UTC, to the second
  if (succeeded < scheduled) return degraded('CronJob has not completed its last execution successfully')
  return healthy('CronJob has completed its last execution successfully')
}

/** Of Argo Workflows. */
export const workflow: ArgoRule = (object) => {
  const message = textAt(object, 'status.message')
  switch (textAt(object, 'status.phase')) {
    case '':
    case 'Pending':
    case 'Running':
      return progressing(message)
    case 'Succeeded':
      return healthy(message)
    case 'Failed':
    case 'Error':
      return degraded(message)
    default:
      return unknown(message)
  }
}
