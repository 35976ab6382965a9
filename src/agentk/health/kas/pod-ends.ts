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

/** How a Pod failed for good, or its container did before somebody deleted it. Times are ms since 1970. */
export interface PodEnd {
  readonly uid: string
  readonly name: string
  /** '': none */
  readonly node: string
  readonly created: number
  readonly at: number
  readonly reason: string
  readonly text: string
  /** its kubelet, or what deletes Pods, has ended it: no container did */
  readonly isFromOutside: boolean
  /** an event alone says so */
  readonly isByEvent?: true
}

type ByUid = readonly (readonly [uid: string, evidence: Evidence])[]

/**
 * Events show how Pods failed for good whose place others of the same name have taken.
 *
 * @param ofName - all that is known of a Pod, and of those that had its name before
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

/** @returns undefined: it has not ended so, as far as its status says */
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
  // what ends once it is being deleted ends by that
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
