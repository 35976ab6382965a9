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

/** Other objects that explanations read. */
export interface Surroundings extends Around {
  apiServicesOf(group: string): readonly KubernetesObject[]
  /** configurations that have a webhook of this name */
  webhooksNamed(name: string): readonly KubernetesObject[]
  /** configurations of admission webhooks */
  webhooksOf(): readonly KubernetesObject[]
  /** objects of a custom kind that are being deleted */
  definedOf(kind: string): readonly KubernetesObject[]
  /** nodes with a finding */
  unwellNodes(): readonly KubernetesObject[]
  /** objects of a namespace that are being deleted */
  deletedIn(namespace: string): readonly KubernetesObject[]
}

/** Objects that may be the cause of another object's failure. */
export interface Explanation {
  readonly objects: readonly KubernetesObject[]
  /** true if a finding on one of them is the cause */
  readonly explains: (finding: Finding) => boolean
  /** they are what fails, not the object that they explain */
  readonly isTheirs: boolean
  /** a single object is the culprit even without a finding */
  readonly isNamed?: boolean
}

/** Limit of steps from a finding to its cause. */
export const maxSteps = 4

const none: Explanation = { objects: [], explains: () => false, isTheirs: false }
const apiServiceKind = 'apiregistration.k8s.io/APIService'

type Sees = (object: KubernetesObject) => boolean

/**
 * Returns objects that may explain a finding.
 *
 * @param sees - true if the caller may list an object: explanations lead through no other
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
  // a claim that waits for its Pod's node does not cause that there is none
  const isByClaims = text.includes('unbound immediate PersistentVolumeClaims')
  const explains = (one: Finding) => isFailing(one) && (isByClaims || one.reason !== 'NotBound')
  const nodes = isForNodes(text) ? around.unwellNodes() : []
  return { objects: [...claimsOf(pod, around), ...nodes], explains, isTheirs: false }
}

/** Taints that controllers set on unhealthy nodes. */
const ofUnwell =
  /\bnode\.(?:kubernetes\.io\/(?:unreachable|not-ready|(?:memory|disk|pid)-pressure|network-unavailable)|cloudprovider\.kubernetes\.io\/uninitialized)\b/
const ofControlPlane = /\{node-role\.kubernetes\.io\//

/** True if the scheduler finds no node because all nodes, except control planes, are not well. */
function isForNodes(text: string): boolean {
  const reasons = text.split(/[:,] (?=\d{1,6} )/).slice(1)
  return (
    reasons.some((one) => ofUnwell.test(one)) && reasons.every((one) => ofUnwell.test(one) || ofControlPlane.test(one))
  )
}

/** Explains skipped starts by the active run, which may itself be as it should be. */
function explainActiveRun(cronJob: KubernetesObject, around: Surroundings): Explanation {
  const names = new Set(listAt(cronJob, 'status.active').map((one) => textField(one, 'name')))
  const runs = around.childrenOf(cronJob).filter((one) => names.has(nameOf(one)))
  return { objects: runs, explains: () => false, isTheirs: false, isNamed: true }
}

/** True if a webhook that must agree cannot be asked. */
const isUnasked = (reason: string) => reason === 'WebhookServiceMissing' || reason === 'NoReadyEndpoints'

/** True for a claim that is not well, unless it only waits for its Pod's node. */
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

/** Explains a Service by its Pods, which fail with it. Ended Pods count only if there are no others. */
function byPodsOf(service: KubernetesObject, around: Surroundings): Explanation {
  const selector = selectorOf(service)
  const pods = selector.length > 0 ? around.podsOf(namespaceOf(service), selector) : []
  const alive = pods.filter((pod) => !isEnding(pod))
  return { objects: alive.length > 0 ? alive : pods, explains: isFailing, isTheirs: true }
}

/** Explains by Services that nobody answers, and those by their Pods. */
function byServicesOf(ingress: KubernetesObject, around: Surroundings): Explanation {
  const services = backendsOf(ingress).map((name) => around.find('Service', namespaceOf(ingress), name))
  return { objects: present(services), explains: ({ reason }) => reason === 'NoReadyEndpoints', isTheirs: true }
}

const isBlocked = ({ reason }: Finding) => reason === 'DeletionBlocked' || reason === 'TerminatingStuck'

/** Explains a deletion that waits by Kubernetes' own finalizers for other objects that are being deleted. */
function ofDeletion(object: KubernetesObject, { text }: Finding, around: Surroundings): Explanation {
  if (kindOf(object) === definitionKind) {
    return { objects: around.definedOf(definedKind(object)), explains: isBlocked, isTheirs: false }
  }
  if (!/\bforegroundDeletion\b/.test(text)) return none
  return { objects: around.childrenOf(object).filter(isBeingDeleted), explains: isBlocked, isTheirs: false }
}

/** Returns the webhooks that are asked before a Pod may be deleted. */
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
