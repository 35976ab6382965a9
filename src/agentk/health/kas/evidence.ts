import { type KubernetesObject, kindOf, numberAt, textAt, textField } from '../../../kubernetes/object.ts'
import { timeOf } from '../../../kubernetes/time.ts'
import { minute } from './finding.ts'
import { searched, withoutCombined } from './text.ts'

/** An event that explains why an object is not well. */
export interface Evidence {
  readonly reason: string
  readonly message: string
  /** container of the Pod; '': the event names none */
  readonly container: string
  /** ms since 1970 */
  readonly first: number
  readonly last: number
  /** number of times that it happened, as far as the event says */
  readonly count: number
}

/** Reasons of Warnings by which objects are judged. No other event counts. */
const warnings: ReadonlySet<string> = new Set([
  'FailedCreate',
  'Failed',
  'FailedPostStartHook',
  'Unhealthy',
  'BackOff',
  'FailedMount',
  'FailedAttachVolume',
  'FailedMapVolume',
  'FailedCreatePodSandBox',
  'NetworkNotReady',
  'ProvisioningFailed',
  'FailedBinding',
  'VolumeMismatch',
  'FailedKillPod',
  'FailedBuildModel',
  'FailedDeployModel',
  'SyncLoadBalancerFailed',
  'UnAvailableLoadBalancer',
  // of MetalLB
  'AllocationFailed',
  // of GKE's controller for ingresses
  'Translate',
  'Sync',
  'FailedToRetrieveImagePullSecret',
  'FailedResourceClaimCreation',
  'VolumeFailedDelete',
  'FailedDelete',
  'VolumeResizeFailed',
  'FileSystemResizeFailed',
  'UnparseableSchedule',
  'InvalidSchedule',
  'UnknownTimeZone',
  'MissSchedule',
  'TooManyMissedTimes',
  'FailedDaemonPod',
  'RecreatingFailedPod',
])
const killing = 'Killing'
/** Reasons that also come as Normal events, beside `Killing`, which counts only if a probe ended the container. */
const normal: ReadonlySet<string> = new Set(['FailedBinding', 'ExternalExpanding', 'JobAlreadyActive'])
/** Reasons of Normal events that may count. */
export const normalReasons: readonly string[] = [killing, ...normal]

/** Time for which an event counts after it was last seen: the API server forgets it then. ms */
export const countsForMs = 60 * minute

const killedByProbe = /failed (?:liveness|startup) probe/

/**
 * @param event - of core/v1
 * @param now - ms since 1970
 * @returns undefined: it does not count, or does not count any more
 */
export function evidenceOf(event: KubernetesObject, now: number): Evidence | undefined {
  const reason = textAt(event, 'reason')
  const message = searched(withoutCombined(textAt(event, 'message')))
  if (!isCounted(event, reason, message)) return undefined
  const created = timeOf(textAt(event, 'metadata.creationTimestamp'), now)
  const first = timeOf(event.firstTimestamp, now) ?? timeOf(event.eventTime, now) ?? created
  const last =
    timeOf(event.lastTimestamp, now) ?? timeOf(textAt(event, 'series.lastObservedTime'), now) ?? first ?? created
  if (first === undefined || last === undefined || now - last > countsForMs) return undefined
  return { reason, message, container: containerOf(event), first: Math.min(first, last), last, count: countOf(event) }
}

const countOf = (event: KubernetesObject) => numberAt(event, 'count') ?? numberAt(event, 'series.count') ?? 1

/** Matches Pods of a StatefulSet, whose names come back: only for these do events of failed Pods count. */
const ofStatefulSet = /-\d{1,10}$/
/** Reasons why Pods fail for good, from outside of their containers. */
export const isFromOutside =
  /^(?:Evicted|OutOf[a-z./-]{1,253}|UnexpectedAdmissionError|NodeName|NodeAffinity|NodePorts|TopologyAffinityError|Preempting|SysctlForbidden|AppArmor|PodOS(?:NotSupported|SelectorNodeLabelDoesNotMatch)|[A-Z][A-Za-z]{1,60}NotSupported)$/

function isCounted(event: KubernetesObject, reason: string, message: string): boolean {
  const type = textAt(event, 'type')
  if (reason === killing) return killedByProbe.test(message)
  const isOfSet = ofStatefulSet.test(textField(event.involvedObject, 'name')) && isFromOutside.test(reason)
  return normal.has(reason) || (type === 'Warning' && isOfSet) || (type === 'Warning' && warnings.has(reason))
}

function containerOf(event: KubernetesObject): string {
  const path = searched(textField(event.involvedObject, 'fieldPath'))
  return /^spec\.\w+\{([^}]*)\}$/.exec(path)?.[1] ?? ''
}

/** Returns the event that was seen last; of several, the one whose text sorts first. */
export function newest(evidence: Iterable<Evidence>): Evidence | undefined {
  let found: Evidence | undefined
  for (const one of evidence) {
    if (!found || one.last > found.last || (one.last === found.last && one.message < found.message)) found = one
  }
  return found
}

export function firstOf(evidence: Iterable<Evidence>): number | undefined {
  let first: number | undefined
  for (const one of evidence) first = Math.min(first ?? one.first, one.first)
  return first
}

/** Returns the object that an event is about. `uid` is '' if the event has none. */
export function subjectOf(event: KubernetesObject) {
  const about = (event.involvedObject ?? {}) as KubernetesObject
  return {
    kind: kindOf(about),
    namespace: textField(about, 'namespace'),
    name: textField(about, 'name'),
    uid: textField(about, 'uid'),
  }
}
