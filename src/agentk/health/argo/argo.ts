import { isBeingDeleted, type KubernetesObject, kindOf } from '../../../kubernetes/object.ts'
import { apiService, customResourceDefinition } from './extensions.ts'
import { type ArgoHealth, type ArgoRule, type OwnRules, progressing } from './health.ts'
import { cronJob, job, workflow } from './jobs.ts'
import { pod } from './pod.ts'
import { ingress, persistentVolumeClaim, service } from './provided.ts'
import { horizontalPodAutoscaler, podDisruptionBudget } from './scaling.ts'
import { daemonSet, deployment, replicaSet, statefulSet } from './workloads.ts'

/** Kinds that Argo CD judges by itself, and of its overrides those of Kubernetes' own kinds. */
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
 * What Argo CD says of an object, by rules written anew after those of argoproj/argo-cd.
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
