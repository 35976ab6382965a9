import { conditionsOf } from '../../../kubernetes/conditions.ts'
import { at, isBeingDeleted, type KubernetesObject, kindOf, textAt } from '../../../kubernetes/object.ts'
import { type ArgoHealth, type ArgoRule, degraded, healthy, type OwnRules, progressing, unknown } from './health.ts'
import { pod } from './pod.ts'
import { horizontalPodAutoscaler, podDisruptionBudget } from './scaling.ts'
import { cronJob, daemonSet, deployment, job, replicaSet, statefulSet, workflow } from './workloads.ts'

const service: ArgoRule = (object) => {
  if (textAt(object, 'spec.type') !== 'LoadBalancer') return healthy()
  return hasAddress(object) ? healthy() : progressing()
}

const ingress: ArgoRule = (object) => (hasAddress(object) ? healthy() : progressing())

const persistentVolumeClaim: ArgoRule = (object) => {
  switch (textAt(object, 'status.phase')) {
    case 'Lost':
      return degraded()
    case 'Pending':
      return progressing()
    case 'Bound':
      return healthy()
    default:
      return unknown()
  }
}

function hasAddress(object: Parameters<ArgoRule>[0]): boolean {
  const found = at(object, 'status.loadBalancer.ingress')
  return Array.isArray(found) && found.length > 0
}

const apiService: ArgoRule = (object) => {
  const available = conditionsOf(object).find(({ type }) => type === 'Available')
  if (!available) return progressing('Waiting to be processed')
  const text = `${available.reason}: ${available.message}`
  return available.status === 'True' ? healthy(text) : progressing(text)
}

const customResourceDefinition: ArgoRule = (object) => {
  const conditions = conditionsOf(object)
  if (conditions.length === 0) return progressing('Status conditions not found')
  const find = (type: string) => conditions.find((condition) => condition.type === type)
  const [terminating, names, schema, established] = [
    find('Terminating'),
    find('NamesAccepted'),
    find('NonStructuralSchema'),
    find('Established'),
  ]
  if (terminating?.status === 'True') return progressing(`CRD is terminating: ${terminating.message}`)
  if (names?.status === 'False') return degraded(`CRD names have not been accepted: ${names.message}`)
  if (schema?.status === 'True') return degraded(`Schema violations found: ${schema.message}`)
  if (established?.status === 'True') return healthy('CRD is healthy')
  if (established?.reason === 'Installing') return progressing('CRD is being installed')
  return degraded('CRD is not established')
}

/** Rules by kind: Argo CD's built-in ones, and its overrides for Kubernetes' own kinds. */
const rules: Readonly<Record<string, ArgoRule>> = {
  'apps/Deployment': deployment,
  'apps/ReplicaSet': replicaSet,
  'apps/DaemonSet': daemonSet,
  'apps/StatefulSet': statefulSet,
  Pod: pod,
  'batch/Job': job,
  'batch/CronJob': cronJob,
  'argoproj.io/Workflow': workflow,
  Service: service,
  'networking.k8s.io/Ingress': ingress,
  'extensions/Ingress': ingress,
  PersistentVolumeClaim: persistentVolumeClaim,
  'autoscaling/HorizontalPodAutoscaler': horizontalPodAutoscaler,
  'policy/PodDisruptionBudget': podDisruptionBudget,
  'apiregistration.k8s.io/APIService': apiService,
  'apiextensions.k8s.io/CustomResourceDefinition': customResourceDefinition,
}

/**
 * Judges an object as Argo CD does, by rules rewritten after those of argoproj/argo-cd.
 *
 * @returns undefined for a kind without a rule
 */
export function argoHealth(object: KubernetesObject, own?: OwnRules): ArgoHealth | undefined {
  if (isBeingDeleted(object)) return progressing('Pending deletion')
  const found = own?.(object)
  if (found) return found.health
  const kind = kindOf(object)
  return Object.hasOwn(rules, kind) ? rules[kind]?.(object) : undefined
}

export function hasArgoRule(kind: string): boolean {
  return Object.hasOwn(rules, kind)
}
