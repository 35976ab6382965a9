import { isBeingDeleted, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { cut, maxFact, maxFacts, maxName, maxReferences } from './bounds.ts'
import {
  applicationKind,
  argoApplication,
  fluxHelmRelease,
  fluxKustomization,
  helmReleaseKind,
  kustomizationKind,
  trackedBy,
} from './deployers.ts'
import { isMetadataAlone } from './metadata.ts'
import { endpointSlice, ingress, route, service } from './networking.ts'
import { pod, terminating } from './pods.ts'
import type { Projection, Projector, Reference } from './projector.ts'
import { apiService, node, roleBinding, webhookConfiguration } from './registrations.ts'
import { persistentVolume, persistentVolumeClaim } from './storage.ts'
import {
  cronJob,
  daemonSet,
  deployment,
  horizontalPodAutoscaler,
  job,
  podDisruptionBudget,
  replicaSet,
  statefulSet,
} from './workloads.ts'

const projectors: Readonly<Record<string, Projector>> = {
  Pod: pod,
  Node: node,
  'apps/Deployment': deployment,
  'apps/ReplicaSet': replicaSet,
  'apps/StatefulSet': statefulSet,
  'apps/DaemonSet': daemonSet,
  'batch/Job': job,
  'batch/CronJob': cronJob,
  Service: service,
  'discovery.k8s.io/EndpointSlice': endpointSlice,
  'networking.k8s.io/Ingress': ingress,
  'gateway.networking.k8s.io/HTTPRoute': route,
  'gateway.networking.k8s.io/GRPCRoute': route,
  PersistentVolume: persistentVolume,
  PersistentVolumeClaim: persistentVolumeClaim,
  'autoscaling/HorizontalPodAutoscaler': horizontalPodAutoscaler,
  'policy/PodDisruptionBudget': podDisruptionBudget,
  'rbac.authorization.k8s.io/RoleBinding': roleBinding,
  'rbac.authorization.k8s.io/ClusterRoleBinding': roleBinding,
  'apiregistration.k8s.io/APIService': apiService,
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': webhookConfiguration,
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': webhookConfiguration,
  [kustomizationKind]: fluxKustomization,
  [helmReleaseKind]: fluxHelmRelease,
  [applicationKind]: argoApplication,
}

/** True if more than the metadata of the kind is read. */
export function hasProjector(kind: string): boolean {
  return Object.hasOwn(projectors, kind)
}

/** @param kind - `group/Kind` */
export function projectionOf(kind: string, object: KubernetesObject): Projection {
  const own = hasProjector(kind) && !isMetadataAlone(object) ? projectors[kind]?.(object) : undefined
  const tracker = trackedBy(kind, object)
  // a Pod has it in place of its phase, as in kubectl
  const state = kind !== 'Pod' && isBeingDeleted(object) ? terminating : ''
  return {
    facts: [state, ...(own?.facts ?? [])]
      .filter((fact) => fact !== '')
      .slice(0, maxFacts)
      .map((fact) => cut(fact, maxFact)),
    selector: own?.selector,
    references: tracker ? bounded([...(own?.references ?? []), tracker]) : boundedOnce(own?.references ?? noReferences),
    customParent: own?.customParent,
    node: (own?.node ?? '').length <= maxName ? (own?.node ?? '') : '',
  }
}

const noReferences: readonly Reference[] = []
const boundedLists = new WeakMap<readonly Reference[], readonly Reference[]>()

/** Bounds a list once for all objects that share it. */
function boundedOnce(references: readonly Reference[]): readonly Reference[] {
  let found = boundedLists.get(references)
  if (!found) {
    found = bounded(references)
    boundedLists.set(references, found)
  }
  return found
}

/** References that can be used, each once. */
function bounded(references: readonly Reference[]): readonly Reference[] {
  const found = new Map<string, Reference>()
  for (const reference of references) {
    const texts = [reference.relation, reference.kind, reference.namespace, reference.name]
    if (!reference.kind || !reference.name || texts.some((text) => text.length > maxName)) continue
    found.set(JSON.stringify(texts), reference)
    if (found.size === maxReferences) break
  }
  return [...found.values()]
}
