import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { at, listAt, numberAt, textAt } from '../../../kubernetes/object.ts'
import { type ArgoRule, degraded, healthy, progressing, suspended, unknown } from './health.ts'

export const deployment: ArgoRule = (object) => {
  if (at(object, 'spec.paused') === true) return suspended('Deployment is paused')
  if (isUnobserved(object)) return waiting('observed deployment generation less than desired generation')
  const isOverdue = conditionsOf(object).some(
    ({ type, reason }) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded',
  )
  if (isOverdue) return degraded(`Deployment "${textAt(object, 'metadata.name')}" exceeded its progress deadline`)
  const wanted = numberAt(object, 'spec.replicas')
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  const [updated, replicas, available] = [count('updatedReplicas'), count('replicas'), count('availableReplicas')]
  if (wanted !== undefined && updated < wanted) {
    return waiting(`${updated} out of ${wanted} new replicas have been updated...`)
  }
  if (replicas > updated) return waiting(`${replicas - updated} old replicas are pending termination...`)
  if (available < updated) return waiting(`${available} of ${updated} updated replicas are available...`)
  return healthy()
}

export const replicaSet: ArgoRule = (object) => {
  if (isUnobserved(object)) return waiting('observed replica set generation less than desired generation')
  const failure = conditionsOf(object).find(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  if (failure) return degraded(failure.message)
  const wanted = numberAt(object, 'spec.replicas')
  const available = numberAt(object, 'status.availableReplicas') ?? 0
  if (wanted !== undefined && available < wanted) {
    return waiting(`${available} out of ${wanted} new replicas are available...`)
  }
  return healthy()
}

export const daemonSet: ArgoRule = (object) => {
  if (isUnobserved(object)) return waiting('observed daemon set generation less than desired generation')
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  const [desired, updated, available] = [
    count('desiredNumberScheduled'),
    count('updatedNumberScheduled'),
    count('numberAvailable'),
  ]
  if (textAt(object, 'spec.updateStrategy.type') === 'OnDelete') {
    return healthy(`daemon set ${updated} out of ${desired} new pods have been updated`)
  }
  const name = textAt(object, 'metadata.name')
  if (updated < desired) {
    return progressing(
      `Waiting for daemon set "${name}" rollout to finish: ${updated} out of ${desired} new pods have been updated...`,
    )
  }
  if (available < desired) {
    return progressing(
      `Waiting for daemon set "${name}" rollout to finish: ${available} of ${desired} updated pods are available...`,
    )
  }
  return healthy()
}

export const statefulSet: ArgoRule = (object) => {
  const observed = numberAt(object, 'status.observedGeneration') ?? 0
  if (observed === 0 || isUnobserved(object)) {
    return progressing('Waiting for statefulset spec update to be observed...')
  }
  const wanted = numberAt(object, 'spec.replicas')
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  const [ready, updated] = [count('readyReplicas'), count('updatedReplicas')]
  if (wanted !== undefined && ready < wanted) return progressing(`Waiting for ${wanted - ready} pods to be ready...`)
  const strategy = textAt(object, 'spec.updateStrategy.type')
  const rollingUpdate = at(object, 'spec.updateStrategy.rollingUpdate')
  if (strategy === 'RollingUpdate' && rollingUpdate !== undefined && rollingUpdate !== null) {
    const partition = numberAt(rollingUpdate, 'partition')
    if (wanted !== undefined && partition !== undefined && updated < wanted - partition) {
      return progressing(
        `Waiting for partitioned roll out to finish: ${updated} out of ${wanted - partition} new pods have been updated...`,
      )
    }
    return healthy(`partitioned roll out complete: ${updated} new pods have been updated...`) // at any revision
  }
  if (strategy === 'OnDelete') return healthy(`statefulset has ${ready} ready pods`)
  const [update, current] = [textAt(object, 'status.updateRevision'), textAt(object, 'status.currentRevision')]
  if (update !== current) {
    return progressing(`waiting for statefulset rolling update to complete ${updated} pods at revision ${update}...`)
  }
  return healthy(`statefulset rolling update complete ${count('currentReplicas')} pods at revision ${current}...`)
}

function isUnobserved(object: Parameters<ArgoRule>[0]): boolean {
  return (numberAt(object, 'metadata.generation') ?? 0) > (numberAt(object, 'status.observedGeneration') ?? 0)
}

const waiting = (reason: string) => progressing(`Waiting for rollout to finish: ${reason}`)

/** A condition counts even if its status is False: a Job that was resumed is Healthy. */
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
  // the API server writes both in UTC, in whole seconds
  if (succeeded < scheduled) return degraded('CronJob has not completed its last execution successfully')
  return healthy('CronJob has completed its last execution successfully')
}

/** Judges a Workflow of Argo Workflows. */
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
