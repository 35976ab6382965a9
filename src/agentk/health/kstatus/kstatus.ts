import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { at, isBeingDeleted, type KubernetesObject, kindOf, numberAt, textAt } from '../../../kubernetes/object.ts'
import { current, failed, inProgress, type Kstatus, type KstatusRule } from './status.ts'
import { daemonSet, deployment, pod, replicaSet, statefulSet } from './workloads.ts'

const always: KstatusRule = () => current('Resource is always ready')

const job: KstatusRule = (object) => {
  const count = (name: string) => numberAt(object, `status.${name}`) ?? 0
  const wanted = numberAt(object, 'spec.completions') ?? numberAt(object, 'spec.parallelism') ?? 1
  const isToBeSuspended = at(object, 'spec.suspend') === true
  for (const { type, status } of conditionsOf(object)) {
    if (status !== 'True') continue
    if (type === 'Complete') return current(`Job Completed. succeeded: ${count('succeeded')}/${wanted}`)
    if (type === 'Failed') return failed('JobFailed', `Job Failed. failed: ${count('failed')}/${wanted}`)
    if (type === 'Suspended' && isToBeSuspended) return current('Job is suspended')
    if (type === 'Suspended') return inProgress('JobResuming', 'Job is to go on')
  }
  if (isToBeSuspended) return inProgress('JobSuspending', 'Job is to be suspended')
  if (textAt(object, 'status.startTime') === '') return inProgress('JobNotStarted', 'Job not started')
  return current(
    `Job in progress. success:${count('succeeded')}, active: ${count('active')}, failed: ${count('failed')}`,
  )
}

const service: KstatusRule = (object) => {
  if (textAt(object, 'spec.type') === 'LoadBalancer' && textAt(object, 'spec.clusterIP') === '') {
    return inProgress('NoIPAssigned', 'ClusterIP not set. Service type: LoadBalancer')
  }
  return current('Service is ready')
}

const persistentVolumeClaim: KstatusRule = (object) => {
  const phase = textAt(object, 'status.phase') || 'unknown'
  return phase === 'Bound' ? current('PVC is Bound') : inProgress('NotBound', `PVC is not Bound. phase: ${phase}`)
}

const customResourceDefinition: KstatusRule = (object) => {
  for (const { type, status, reason, message } of conditionsOf(object)) {
    if (type === 'NamesAccepted' && status === 'False') return failed(reason, message)
    if (type !== 'Established') continue
    if (status === 'False' && reason !== 'Installing') return failed(reason, message)
    if (status === 'True') return current('CRD is established')
  }
  return inProgress('Installing', 'Install in progress')
}

const rules: Readonly<Record<string, KstatusRule>> = {
  Service: service,
  Pod: pod,
  Secret: always,
  ConfigMap: always,
  PersistentVolumeClaim: persistentVolumeClaim,
  'apps/StatefulSet': statefulSet,
  'apps/DaemonSet': daemonSet,
  'extensions/DaemonSet': daemonSet,
  'apps/Deployment': deployment,
  'extensions/Deployment': deployment,
  'apps/ReplicaSet': replicaSet,
  'extensions/ReplicaSet': replicaSet,
  'policy/PodDisruptionBudget': () => current('AllowedDisruptions has been computed.'),
  'batch/CronJob': always,
  'batch/Job': job,
  'apiextensions.k8s.io/CustomResourceDefinition': customResourceDefinition,
}

/**
 * Judges an object as kstatus does, by rules rewritten after those of kubernetes-sigs/cli-utils.
 *
 * @param now - ms since 1970
 */
export function kstatus(object: KubernetesObject, now: number): Kstatus {
  if (isBeingDeleted(object)) return { status: 'Terminating', reason: '', text: 'Resource scheduled for deletion' }
  const kind = kindOf(object)
  const rule = Object.hasOwn(rules, kind) ? rules[kind] : undefined
  return unobserved(object) ?? standard(object) ?? (rule ? rule(object, now) : byReady(object))
}

function unobserved(object: KubernetesObject): Kstatus | undefined {
  const generation = numberAt(object, 'metadata.generation')
  const observed = numberAt(object, 'status.observedGeneration')
  if (generation === undefined || observed === undefined || generation === observed) return undefined
  const text = `${textAt(object, 'kind')} generation is ${generation}, but latest observed generation is ${observed}`
  return inProgress('LatestGenerationNotObserved', text)
}

/** Judges by kstatus' own conditions, which any controller may set. */
function standard(object: KubernetesObject): Kstatus | undefined {
  for (const { type, status, reason, message } of conditionsOf(object)) {
    if (status !== 'True') continue
    if (type === 'Reconciling') return inProgress(reason, message)
    if (type === 'Stalled') return failed(reason, message)
  }
  return undefined
}

/** Judges an object of a kind without a rule. */
function byReady(object: KubernetesObject): Kstatus {
  const ready = conditionsOf(object).find(({ type }) => type === 'Ready')
  if (ready?.status === 'False' || ready?.status === 'Unknown') return inProgress(ready.reason, ready.message)
  return current(ready ? 'Resource is Ready' : 'Resource is current')
}
