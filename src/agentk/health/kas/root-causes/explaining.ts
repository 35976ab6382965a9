import {
  isBeingDeleted,
  type KubernetesObject,
  kindOf,
  listAt,
  nameOf,
  namespaceOf,
  textAt,
  textField,
} from '../../../../kubernetes/object.ts'
import type { Around } from '../around.ts'
import { metricGroupsOf } from '../autoscalers.ts'
import { stillActive } from '../cron-jobs.ts'
import { conversionService, definedKind, definitionKind } from '../definitions.ts'
import { type Finding, ranks, severityOf } from '../finding.ts'
import { backendNotReady, backendsOf } from '../ingresses.ts'
import { isNotReady } from '../nodes.ts'
import { isOfCreation } from '../pods/creating.ts'
import { claimNamesOf, isEnding } from '../read.ts'
import { webhookOf } from '../refused.ts'
import { isWithoutEndpoints, selectorOf } from '../services.ts'
import { isAskedForDeletion as isAsked, webhookKinds } from '../webhooks.ts'

/** What explanations read of others. */
export interface Surroundings extends Around {
  apiServicesOf(group: string): readonly KubernetesObject[]
  /** configurations that have a webhook of a name */
  webhooksNamed(name: string): readonly KubernetesObject[]
  /** configurations of admission webhooks */
  webhooksOf(): readonly KubernetesObject[]
  /** of a custom kind, those that are being deleted */
  definedOf(kind: string): readonly KubernetesObject[]
  /** nodes of which anything was found */
  unwellNodes(): readonly KubernetesObject[]
  /** what is being deleted in a namespace */
  deletedIn(namespace: string): readonly KubernetesObject[]
}

/** Objects one of which may be why another is not well. */
export interface Explanation {
  readonly objects: readonly KubernetesObject[]
  /** whether a finding of one of them is why */
  readonly explains: (finding: Finding) => boolean
  /** what fails are they, not what they explain */
  readonly isTheirs: boolean
  /** the only one of them is the culprit even if nothing is found of it */
  readonly isNamed?: boolean
}

/** Steps from a finding to what explains it, at most. */
export const maxSteps = 4

const none: Explanation = { objects: [], explains: () => false, isTheirs: false }
const apiServiceKind = 'apiregistration.k8s.io/APIService'

type Sees = (object: KubernetesObject) => boolean

/**
 * What may explain a finding of an object.
 *
 * @param sees - whether the caller may list an object: the way to what explains it leads through no other
 */
export function explanationOf(
  object: KubernetesObject,
  finding: Finding,
  around: Surroundings,
  sees: Sees,
): Explanation {
  const kind = kindOf(object)
  const { reason } = finding
  if (reason === 'WebhookFailed') {
    return { ...byAny(finding.about === '' ? [] : around.webhooksNamed(finding.about)), isNamed: true }
  }
  if (reason === 'DeletionBlocked' && kind !== 'Pod' && kind !== 'Namespace') return ofDeletion(object, finding, around)
  if (webhookKinds.includes(kind)) return byService(object, finding, around)
  switch (kind) {
    case 'Pod':
      return ofPod(object, finding, around)
    case 'batch/CronJob':
      return reason === stillActive ? explainActiveRun(object, around) : none
    case 'autoscaling/HorizontalPodAutoscaler':
      return byAny(metricGroupsOf(object, reason).flatMap((group) => around.apiServicesOf(group)))
    case apiServiceKind:
      return ofApiService(object, around, sees)
    case 'Service':
      return reason === 'NoReadyEndpoints' ? byPodsOf(object, around) : none
    case 'networking.k8s.io/Ingress':
      if (reason === backendNotReady) return { ...byServicesOf(object, around), explains: isFailing }
      return reason === 'AddressPending' ? byServicesOf(object, around) : none
    case definitionKind:
      return byServiceAt(conversionService(object), around)
    case 'Namespace':
      return ofNamespace(object, finding, around)
    default:
      return none
  }
}

const present = (objects: readonly (KubernetesObject | undefined)[]) => objects.filter((one) => one !== undefined)
const isFailing = ({ word }: Finding) => severityOf(word) >= severityOf('Progressing')
const byAny = (objects: readonly KubernetesObject[]): Explanation => ({ objects, explains: isFailing, isTheirs: false })

function ofPod(pod: KubernetesObject, { reason, text }: Finding, around: Surroundings): Explanation {
  if (reason === 'NotScheduled') return { objects: claimsOf(pod, around), explains: isUnbound, isTheirs: false }
  if (reason === 'NodeNotReady' || reason === 'TerminatingStuck' || isOfCreation(reason)) {
    const node = around.find('Node', '', textAt(pod, 'spec.nodeName'))
    const claims = isOfCreation(reason) ? claimsOf(pod, around) : []
    const webhooks = reason === 'TerminatingStuck' ? deletionWebhooks(pod, around) : []
    const explains = (one: Finding) =>
      isNotReady(one.reason) || isUnbound(one) || (webhooks.length > 0 && isUnasked(one.reason))
    const nodes = node ? [node] : []
    return { objects: [...nodes, ...claims, ...webhooks], explains, isTheirs: false }
  }
  if (reason !== 'Unschedulable') return none
  // a claim that waits for its Pod's node is no reason for there being none
  const isByClaims = text.includes('unbound immediate PersistentVolumeClaims')
  const explains = (one: Finding) => isFailing(one) && (isByClaims || one.reason !== 'NotBound')
  const nodes = isForNodes(text) ? around.unwellNodes() : []
  return { objects: [...claimsOf(pod, around), ...nodes], explains, isTheirs: false }
}

/** Taints that controllers set on nodes that are not well. */
const ofUnwell =
  /\bnode\.(?:kubernetes\.io\/(?:unreachable|not-ready|(?:memory|disk|pid)-pressure|network-unavailable)|cloudprovider\.kubernetes\.io\/uninitialized)\b/
const ofControlPlane = /\{node-role\.kubernetes\.io\//

/** Whether the scheduler finds no node because those that there are, but for control planes, are not well. */
function isForNodes(text: string): boolean {
  const reasons = text.split(/[:,] (?=\d{1,6} )/).slice(1)
  return (
    reasons.some((one) => ofUnwell.test(one)) && reasons.every((one) => ofUnwell.test(one) || ofControlPlane.test(one))
  )
}

/** Starts are skipped while it is active: by itself it may be as it should be. */
function explainActiveRun(cronJob: KubernetesObject, around: Surroundings): Explanation {
  const names = new Set(listAt(cronJob, 'status.active').map((one) => textField(one, 'name')))
  const runs = around.childrenOf(cronJob).filter((one) => names.has(nameOf(one)))
  return { objects: runs, explains: () => false, isTheirs: false, isNamed: true }
}

/** Whether nobody can ask a webhook that must agree. */
const isUnasked = (reason: string) => reason === 'WebhookServiceMissing' || reason === 'NoReadyEndpoints'

/** Not well, and not for want of its Pod's node. */
const isUnbound = (claim: Finding) => isFailing(claim) && claim.rank === ranks.pod

function claimsOf(pod: KubernetesObject, around: Surroundings): readonly KubernetesObject[] {
  return present(claimNamesOf(pod).map((name) => around.find('PersistentVolumeClaim', namespaceOf(pod), name)))
}

function byService(configuration: KubernetesObject, { about }: Finding, around: Surroundings): Explanation {
  const webhook = listAt(configuration, 'webhooks').find((one) => textField(one, 'name') === about)
  const of = (name: string) => textAt(webhook, `clientConfig.service.${name}`)
  return byServiceAt({ namespace: of('namespace'), name: of('name') }, around)
}

function byServiceAt(place: { namespace: string; name: string } | undefined, around: Surroundings): Explanation {
  const service = place && around.find('Service', place.namespace, place.name)
  return { objects: service ? [service] : [], explains: (one) => isWithoutEndpoints(one.reason), isTheirs: false }
}

function ofApiService(apiService: KubernetesObject, around: Surroundings, sees: Sees): Explanation {
  const of = (name: string) => textAt(apiService, `spec.service.${name}`)
  const service = around.find('Service', of('namespace'), of('name'))
  return service && sees(service) ? byPodsOf(service, around) : none
}

/** Pods are not well, and with them the Service that they answer for. What has ended is silent beside what has not. */
function byPodsOf(service: KubernetesObject, around: Surroundings): Explanation {
  const selector = selectorOf(service)
  const pods = selector.length > 0 ? around.podsOf(namespaceOf(service), selector) : []
  const alive = pods.filter((pod) => !isEnding(pod))
  return { objects: alive.length > 0 ? alive : pods, explains: isFailing, isTheirs: true }
}

/** By Services that nobody answers, and these by their Pods. */
function byServicesOf(ingress: KubernetesObject, around: Surroundings): Explanation {
  const services = backendsOf(ingress).map((name) => around.find('Service', namespaceOf(ingress), name))
  return { objects: present(services), explains: ({ reason }) => reason === 'NoReadyEndpoints', isTheirs: true }
}

const isBlocked = ({ reason }: Finding) => reason === 'DeletionBlocked' || reason === 'TerminatingStuck'

/** Kubernetes' own finalizers wait for others that are being deleted: these are why. */
function ofDeletion(object: KubernetesObject, { text }: Finding, around: Surroundings): Explanation {
  if (kindOf(object) === definitionKind) {
    return { objects: around.definedOf(definedKind(object)), explains: isBlocked, isTheirs: false }
  }
  if (!/\bforegroundDeletion\b/.test(text)) return none
  return { objects: around.childrenOf(object).filter(isBeingDeleted), explains: isBlocked, isTheirs: false }
}

/** Webhooks that are asked before a Pod may be deleted. */
function deletionWebhooks(pod: KubernetesObject, around: Surroundings): readonly KubernetesObject[] {
  return around.webhooksOf().filter((one) => listAt(one, 'webhooks').some((webhook) => isAsked(webhook, pod)))
}

function ofNamespace(namespace: KubernetesObject, { reason, text }: Finding, around: Surroundings): Explanation {
  if (reason === 'DiscoveryFailed') {
    const named = [...text.matchAll(/([a-z0-9][a-z0-9.-]{0,252})\/(v[0-9][a-z0-9]{0,62})/g)]
    const names = new Set(named.map(([, group, version]) => `${version}.${group}`))
    return byAny(present([...names].map((name) => around.find(apiServiceKind, '', name))))
  }
  if (reason === 'ContentDeletionFailed') return { ...byAny(around.webhooksNamed(webhookOf(text))), isNamed: true }
  if (reason !== 'SomeFinalizersRemain') return none
  return { objects: around.deletedIn(nameOf(namespace)), explains: isBlocked, isTheirs: false }
}
