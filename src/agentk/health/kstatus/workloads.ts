import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { type KubernetesObject, listAt, numberAt, textAt } from '../../../kubernetes/object.ts'
import { current, failed, inProgress, type Kstatus, type KstatusRule } from './status.ts'

/** Kubernetes' value for "no deadline". */
const noDeadline = 2 ** 31 - 1

export const statefulSet: KstatusRule = (object) => {
  if (textAt(object, 'spec.updateStrategy.type') === 'OnDelete') {
    return current('StatefulSet is using the ondelete update strategy')
  }
  const { wanted, replicas, ready, updated, count } = countsOf(object)
  const short = firstShort([
    ['LessReplicas', 'Replicas', replicas, wanted],
    ['LessReady', 'Ready', ready, wanted],
  ])
  if (short) return short
  if (replicas > wanted) return surplus(replicas - wanted)
  const partition = numberAt(object, 'spec.updateStrategy.rollingUpdate.partition')
  if (partition !== undefined) {
    return (
      firstShort([['PartitionRollout', 'updated', updated, wanted - partition]]) ??
      current(`Partition rollout complete. updated: ${updated}`)
    )
  }
  const late = firstShort([['LessCurrent', 'current', count('currentReplicas'), wanted]])
  if (late) return late
  if (textAt(object, 'status.currentRevision') !== textAt(object, 'status.updateRevision')) {
    return inProgress('RevisionMismatch', 'Waiting for updated revision to match current')
  }
  return current(`All replicas scheduled as expected. Replicas: ${replicas}`)
}

export const deployment: KstatusRule = (object) => {
  const conditions = conditionsOf(object)
  const overdue = conditions.find(({ type, reason }) => type === 'Progressing' && reason === 'ProgressDeadlineExceeded')
  if (overdue) return failed(overdue.reason, 'Progress deadline exceeded')
  const { wanted, replicas, ready, updated, available } = countsOf(object)
  const short =
    firstShort([
      ['LessReplicas', 'Replicas', replicas, wanted],
      ['LessUpdated', 'Updated', updated, wanted],
    ]) ??
    (replicas > wanted ? surplus(replicas - wanted) : undefined) ??
    firstShort([
      ['LessAvailable', 'Available', available, updated],
      ['LessReady', 'Ready', ready, wanted],
    ])
  if (short) return short
  // without a deadline the controller does not report progress
  const reportsProgress = (numberAt(object, 'spec.progressDeadlineSeconds') ?? noDeadline) !== noDeadline
  const hasProgressed = conditions.some(
    ({ type, status, reason }) => type === 'Progressing' && status === 'True' && reason === 'NewReplicaSetAvailable',
  )
  if (reportsProgress && !hasProgressed) return inProgress('ReplicaSetNotAvailable', 'ReplicaSet not Available')
  const isAvailable = conditions.some(({ type, status }) => type === 'Available' && status === 'True')
  if (!isAvailable) return inProgress('DeploymentNotAvailable', 'Deployment not Available')
  return current(`Deployment is available. Replicas: ${replicas}`)
}

export const replicaSet: KstatusRule = (object) => {
  const isFailing = conditionsOf(object).some(({ type, status }) => type === 'ReplicaFailure' && status === 'True')
  if (isFailing) return inProgress('ReplicaFailure', 'Replica Failure condition. Check Pods')
  const { wanted, replicas, ready, available, count } = countsOf(object)
  const short = firstShort([
    ['LessLabelled', 'Labelled', count('fullyLabeledReplicas'), wanted],
    ['LessAvailable', 'Available', available, wanted],
    ['LessReady', 'Ready', ready, wanted],
  ])
  if (short) return short
  if (replicas > wanted) return surplus(replicas - wanted)
  return current(`ReplicaSet is available. Replicas: ${replicas}`)
}

export const daemonSet: KstatusRule = (object) => {
  if (numberAt(object, 'metadata.generation') === undefined) {
    return inProgress('NoGeneration', 'DaemonSet metadata.generation not found')
  }
  if (numberAt(object, 'status.observedGeneration') === undefined) {
    return inProgress('NoObservedGeneration', 'DaemonSet status.observedGeneration not found')
  }
  const desired = numberAt(object, 'status.desiredNumberScheduled')
  if (desired === undefined) return inProgress('NoDesiredNumber', 'Missing .status.desiredNumberScheduled')
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  const short = firstShort([
    ['LessCurrent', 'Current', count('currentNumberScheduled'), desired],
    ['LessUpdated', 'Updated', count('updatedNumberScheduled'), desired],
    ['LessAvailable', 'Available', count('numberAvailable'), desired],
    ['LessReady', 'Ready', count('numberReady'), desired],
  ])
  return short ?? current(`All replicas scheduled as expected. Replicas: ${desired}`)
}

function countsOf(object: KubernetesObject) {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  return {
    wanted: numberAt(object, 'spec.replicas') ?? 1, // the default of their controllers
    replicas: count('replicas'),
    ready: count('readyReplicas'),
    updated: count('updatedReplicas'),
    available: count('availableReplicas'),
    count,
  }
}

function firstShort(
  counts: readonly (readonly [reason: string, what: string, has: number, wants: number])[],
): Kstatus | undefined {
  const short = counts.find(([, , has, wants]) => has < wants)
  return short && inProgress(short[0], `${short[1]}: ${short[2]}/${short[3]}`)
}

const surplus = (pods: number) => inProgress('ExtraPods', `Pending termination: ${pods}`)

/** Time for a Pod to be scheduled before it counts as unschedulable. ms */
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
