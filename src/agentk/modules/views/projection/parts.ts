import { entryAt, isBeingDeleted, type KubernetesObject, listAt, textAt } from '../../../../kubernetes/object.ts'
import { gatewayGroup } from '../../../health/kas/gateways.ts'
import { hasEnded } from '../../../health/kas/read.ts'
import { sliceTraits } from '../../../health/kas/services.ts'
import { type Picked, pick, picked } from './pick.ts'

/** Fields of objects that are kept, to judge them again and to judge others by them. Kinds are `group/Kind`. */

const metadata = [
  'apiVersion',
  'metadata.name',
  'metadata.namespace',
  'metadata.uid',
  'metadata.creationTimestamp',
  'metadata.deletionTimestamp',
  'metadata.deletionGracePeriodSeconds',
  'metadata.finalizers',
  'metadata.generation',
]
/** Annotations that are read; their names have dots. */
const annotations: Readonly<Record<string, readonly string[]>> = {
  'apps/ReplicaSet': ['deployment.kubernetes.io/revision'],
  PersistentVolumeClaim: ['volume.kubernetes.io/selected-node', 'volume.kubernetes.io/storage-provisioner'],
  'networking.k8s.io/Ingress': ['kubernetes.io/ingress.class'],
  'networking.k8s.io/IngressClass': ['ingressclass.kubernetes.io/is-default-class'],
  'autoscaling/HorizontalPodAutoscaler': ['autoscaling.alpha.kubernetes.io/conditions'],
}

const container = [
  'name',
  'image',
  'restartPolicy',
  'restartPolicyRules',
  'readinessProbe.periodSeconds',
  'resources.limits.memory',
]
const containerStatus = ['name', 'image', 'ready', 'started', 'restartCount', 'state', 'lastState']
const of = (list: string, fields: readonly string[]) => fields.map((name) => `${list}.${name}`)

const templateLabels = 'spec.template.metadata.labels'
const workload = ['spec.replicas', 'spec.paused', 'status']
const webhooks = [
  'name',
  'failurePolicy',
  'rules',
  'namespaceSelector',
  'objectSelector',
  'clientConfig.service.namespace',
  'clientConfig.service.name',
]

/** Fields of an object that its own rule and its explanation read. */
const ownParts: Readonly<Record<string, readonly string[]>> = {
  Pod: [
    'spec.nodeName',
    'spec.schedulerName',
    'spec.restartPolicy',
    'spec.readinessGates',
    'spec.schedulingGates',
    'spec.nodeSelector',
    ...of('spec.tolerations', ['key', 'operator', 'value', 'effect']),
    ...of('spec.volumes', [
      'name',
      'persistentVolumeClaim.claimName',
      'ephemeral.volumeClaimTemplate.kind',
      'image.reference',
    ]),
    ...of('spec.containers', container),
    ...of('spec.initContainers', container),
    'status.phase',
    'status.reason',
    'status.message',
    'status.conditions',
    'status.startTime',
    'status.nominatedNodeName',
    ...of('status.containerStatuses', containerStatus),
    ...of('status.initContainerStatuses', containerStatus),
  ],
  'apps/Deployment': [...workload, 'spec.strategy.type'],
  'apps/ReplicaSet': workload,
  'apps/StatefulSet': [...workload, 'spec.updateStrategy.type', 'spec.podManagementPolicy'],
  'apps/DaemonSet': workload,
  ReplicationController: workload,
  'batch/Job': [
    'spec.suspend',
    'spec.activeDeadlineSeconds',
    'spec.parallelism',
    'spec.completions',
    'spec.managedBy',
    templateLabels,
    'status',
  ],
  'batch/CronJob': ['spec.suspend', 'spec.schedule', 'spec.timeZone', 'status'],
  Node: ['spec.unschedulable', ...of('spec.taints', ['key', 'timeAdded']), 'status.conditions'],
  PersistentVolume: [
    'spec.claimRef',
    'status.phase',
    'status.reason',
    'status.message',
    'status.lastPhaseTransitionTime',
  ],
  PersistentVolumeClaim: [
    'spec.storageClassName',
    'spec.volumeName',
    'spec.resources.requests.storage',
    'status.phase',
    'status.capacity.storage',
    'status.conditions',
    'status.allocatedResourceStatuses.storage',
    'status.modifyVolumeStatus',
  ],
  Service: [
    'spec.type',
    'spec.selector',
    'spec.clusterIP',
    ...of('spec.ports', ['name', 'port', 'targetPort']),
    'status.loadBalancer.ingress',
  ],
  'networking.k8s.io/Ingress': [
    'spec.defaultBackend.service',
    'spec.ingressClassName',
    'spec.tls.secretName',
    'spec.rules.http.paths.backend.service',
    'status.loadBalancer.ingress',
  ],
  'autoscaling/HorizontalPodAutoscaler': ['spec.scaleTargetRef', 'spec.metrics.type', 'status.conditions'],
  'apiregistration.k8s.io/APIService': ['spec.group', 'spec.service', 'status.conditions'],
  'apiextensions.k8s.io/CustomResourceDefinition': [
    'spec.group',
    'spec.names.kind',
    ...of('spec.versions', ['name', 'served']),
    'spec.conversion.strategy',
    ...of('spec.conversion.webhook.clientConfig.service', ['namespace', 'name']),
    'status.conditions',
    'status.storedVersions',
  ],
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration': of('webhooks', webhooks),
  'admissionregistration.k8s.io/MutatingWebhookConfiguration': of('webhooks', webhooks),
  'policy/PodDisruptionBudget': ['status.conditions'],
  'certificates.k8s.io/CertificateSigningRequest': ['spec.signerName', 'status.conditions', 'status.certificate'],
  'storage.k8s.io/VolumeAttachment': ['spec.attacher', 'spec.nodeName', 'spec.source.persistentVolumeName', 'status'],
  Namespace: ['status'],
}

/** Fields of an object by which others are judged, also while it is well. */
const traitParts: Readonly<Record<string, readonly string[]>> = {
  'apps/Deployment': ['spec.replicas', templateLabels],
  'apps/ReplicaSet': ['spec.replicas', templateLabels],
  'apps/StatefulSet': ['spec.replicas', templateLabels],
  'apps/DaemonSet': ['status.desiredNumberScheduled', templateLabels],
  ReplicationController: ['spec.replicas', templateLabels],
  'batch/CronJob': ['spec.jobTemplate.spec.template.metadata.labels'],
  'storage.k8s.io/StorageClass': ['volumeBindingMode'],
  Node: of('spec.taints', ['key', 'value', 'effect']),
  PersistentVolume: [
    'spec.nodeAffinity',
    'spec.claimRef.namespace',
    'spec.claimRef.name',
    'spec.claimRef.uid',
    'status.phase',
  ],
  Service: of('spec.ports', ['name', 'port']),
  'networking.k8s.io/IngressClass': ['spec.controller'],
  'policy/PodDisruptionBudget': ['spec.selector'],
  // its annotations are read, too
  PersistentVolumeClaim: ['spec.volumeName'],
  ResourceQuota: ['status.hard', 'status.used'],
}

const kindsOf = (...tables: object[]) => new Set(tables.flatMap((table) => Object.keys(table)))
/** Fields that are kept, by kind, with those by which others are judged. */
const own = new Map(
  [...kindsOf(ownParts, traitParts)].map((kind) => [
    kind,
    picked(...metadata, ...(ownParts[kind] ?? []), ...(traitParts[kind] ?? [])),
  ]),
)
const traits = new Map(Object.entries(traitParts).map(([kind, paths]) => [kind, picked(...paths)]))
const plain = picked(...metadata)
const gateway = picked(
  ...metadata,
  'spec.gatewayClassName',
  ...of('spec.parentRefs', ['group', 'kind', 'namespace', 'name']),
  'status',
)

/** Kinds that are read whole, though nothing of their status is shown. */
const readWhole: ReadonlySet<string> = new Set([
  'storage.k8s.io/StorageClass',
  'networking.k8s.io/IngressClass',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
  'admissionregistration.k8s.io/MutatingWebhookConfiguration',
])

/** True if more than metadata is read to judge objects of the kind, or others by them. */
export const isJudgedBy = (kind: string) => own.has(kind) || readWhole.has(kind)

/**
 * Returns the fields that are enough to judge an object, and others by it, again.
 *
 * @param object - with its apiVersion and kind
 */
export function ownPartsOf(kind: string, object: KubernetesObject): KubernetesObject {
  const fields = own.get(kind) ?? (kind.startsWith(gatewayGroup) ? gateway : plain)
  const parts = withAnnotations(kind, object, pick(object, fields))
  return { ...traitsOf(kind, object), ...parts, kind: textAt(object, 'kind') }
}

/**
 * Returns the fields by which others are judged, besides namespace and name.
 *
 * @returns undefined: none, as for most objects
 */
export function traitsOf(kind: string, object: KubernetesObject): KubernetesObject | undefined {
  switch (kind) {
    case 'Pod':
      return traitsOfPod(object)
    case 'batch/Job':
      return traitsOfJob(object)
    case 'discovery.k8s.io/EndpointSlice':
      return sliceTraits(object)
    default: {
      const fields = traits.get(kind)
      return fields && withAnnotations(kind, object, pick(object, fields))
    }
  }
}

function traitsOfPod(object: KubernetesObject): KubernetesObject | undefined {
  const isDeleted = isBeingDeleted(object)
  const isOver = hasEnded(object)
  if (!isDeleted && !isOver) return undefined
  // the time makes no difference, and Pods share what is equal
  return {
    ...(isOver ? { status: endOf(object) } : {}),
    ...(isDeleted ? { metadata: { deletionTimestamp: 'deleted' } } : {}),
  }
}

/** Characters of a failed Pod's message that are kept. */
const maxMessage = 256

/** Returns how a Pod has ended: its controller is judged by this, when many Pods fail for the same reason. */
function endOf(pod: KubernetesObject): KubernetesObject {
  const [phase, reason] = [textAt(pod, 'status.phase'), textAt(pod, 'status.reason')]
  const message = textAt(pod, 'status.message').slice(0, maxMessage)
  return phase === 'Failed' && reason !== '' ? { phase, reason, message } : { phase }
}

const ends: ReadonlySet<unknown> = new Set(['Complete', 'SuccessCriteriaMet', 'Failed', 'FailureTarget'])
const end = picked('type', 'status', 'reason', 'message', 'lastTransitionTime')

function traitsOfJob(object: KubernetesObject): KubernetesObject {
  const conditions = listAt(object, 'status.conditions').filter(({ type }) => ends.has(type))
  return {
    ...pick(object, jobLabels),
    status: { conditions: conditions.slice(0, ends.size).map((one) => pick(one, end)) },
  }
}

const jobLabels: Picked = picked(templateLabels)

function withAnnotations(kind: string, object: KubernetesObject, parts: KubernetesObject): KubernetesObject {
  const read = (annotations[kind] ?? []).map((name) => [name, entryAt(object, 'metadata.annotations', name)])
  const found = Object.fromEntries(read.filter(([, value]) => value !== ''))
  if (Object.keys(found).length === 0) return parts
  return { ...parts, metadata: { ...(parts.metadata as object | undefined), annotations: found } }
}
