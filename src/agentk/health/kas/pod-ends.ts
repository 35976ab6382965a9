import {
  isBeingDeleted,
  type KubernetesObject,
  kindOf,
  nameOf,
  numberAt,
  textAt,
  textField,
  uidOf,
} from '../../../kubernetes/object.ts'
import { createdOf, exactTimeOf } from '../../../kubernetes/time.ts'
import { type Evidence, isFromOutside } from './evidence.ts'
import { second } from './finding.ts'
import { containersOf, endedLife, endOf } from './pods/container.ts'
import { failedPod, reasonOfEnd } from './pods/failed.ts'

/** End of a Pod that failed for good, or of its container before somebody deleted the Pod. Times are ms since 1970. */
export interface PodEnd {
  readonly uid: string
  readonly name: string
  /** '': none */
  readonly node: string
  readonly created: number
  readonly at: number
  readonly reason: string
  readonly text: string
  /** the kubelet, or a controller that deletes Pods, has ended it, and no container did */
  readonly isFromOutside: boolean
  /** only an event reports it */
  readonly isByEvent?: true
}

type ByUid = readonly (readonly [uid: string, evidence: Evidence])[]

/**
 * Returns ends of failed Pods, by events, whose names other Pods have taken.
 *
 * @param ofName - all events about a Pod, and about earlier ones with its name
 */
export function endsByEvents(
  set: KubernetesObject,
  childrenOf: (set: KubernetesObject) => readonly KubernetesObject[],
  ofName: (pod: KubernetesObject) => ByUid,
): readonly PodEnd[] {
  if (kindOf(set) !== 'apps/StatefulSet') return []
  return childrenOf(set).flatMap((pod) => {
    const known = kindOf(pod) === 'Pod' ? ofName(pod).filter(([, { reason }]) => isFromOutside.test(reason)) : []
    return known.map(([uid, { reason, message, first, last }]): PodEnd => {
      const place = { uid, name: nameOf(pod), node: textAt(pod, 'spec.nodeName'), created: first, at: last }
      return { ...place, reason, text: message || reason, isFromOutside: true, isByEvent: true }
    })
  })
}

/** @returns undefined: it has not ended like that, as far as its status says */
export function endOfPod(pod: KubernetesObject, now: number): PodEnd | undefined {
  const place = {
    uid: uidOf(pod),
    name: nameOf(pod),
    node: textAt(pod, 'spec.nodeName'),
    created: createdOf(pod, now) ?? now,
  }
  if (textField(pod.status, 'phase') === 'Failed') {
    const { reason, text, last, since } = failedPod(pod, now)
    return { ...place, at: last ?? since ?? now, reason, text, isFromOutside: textField(pod.status, 'reason') !== '' }
  }
  if (!isBeingDeleted(pod)) return undefined
  // an end after the begin of the deletion is caused by it
  const graceMs = (numberAt(pod, 'metadata.deletionGracePeriodSeconds') ?? 0) * second
  const deleted = (exactTimeOf(textAt(pod, 'metadata.deletionTimestamp')) ?? now) - graceMs
  for (const container of containersOf(pod)) {
    for (const state of ['state', 'lastState'] as const) {
      const life = endedLife(container, state, now)
      if (!life || life.exitCode === 0 || (life.finished ?? now) > deleted) continue
      const text = `container ${container.name}: ${endOf(life, container)}`
      return { ...place, at: life.finished ?? now, reason: reasonOfEnd(life), text, isFromOutside: false }
    }
  }
  return undefined
}
