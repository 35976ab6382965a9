import { type KubernetesObject, nameOf, namespaceOf, numberAt, textAt, uidOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Evidence, newest } from './evidence.ts'
import { type Finding, found, minute, type Need, ranks, second } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'

/** Failed Pods from which they count as a loop. */
const leastFailed = 3
/** Pods that are made within this time count as made together. ms */
const togetherMs = 5 * second
/** The loop has ended if no Pod has failed for so long. ms */
const restedMs = 10 * minute
/** The same for a place: a DaemonSet waits up to a quarter of an hour for its next Pod. ms */
const placeRestedMs = 20 * minute
/** Pods older than this belong to another loop. ms */
const windowMs = 60 * minute
/** Reasons of a node that shuts down. That passes, however many Pods are made for it until then. */
const isOfNode = /^(?:Terminated|NodeShutdown|Shutdown)$/

export interface FailingOptions {
  /** number of Pods that should exist at a time */
  readonly desired: number
  /** Pods that replace each other have the same group; absent: all Pods do */
  readonly groupOf?: (pod: Pick<PodEnd, 'name' | 'node'>) => string
  /** absent: Degraded at once */
  readonly grace?: number | undefined
}

type Failed = Pick<PodEnd, 'uid' | 'name' | 'node' | 'created' | 'reason' | 'text' | 'isByEvent'>

/**
 * Finds Pods that fail again and again: they are evicted, or refused by the kubelet, and their maker makes others. No
 * restart counts these failures, and in between the Pods may be ready.
 */
export function failingAgain(object: KubernetesObject, around: Around, options: FailingOptions): Finding | undefined {
  const { desired, groupOf = () => '' } = options
  if (desired === 0) return undefined
  const { now } = around
  const failed = failedPods(object, around)
  const events = Map.groupBy(around.eventsOf(object), subjectOf)
  events.delete('')
  const groups = new Set([...failed.map(groupOf), ...events.keys()])
  for (const group of [...groups].sort()) {
    const all = failed.filter((pod) => groupOf(pod) === group)
    const [last] = all
    const alike = all.filter(({ reason }) => reason === last?.reason)
    if (last ? isOfNode.test(last.reason) : readyOf(object) >= desired) continue
    const rested = options.groupOf ? placeRestedMs : restedMs
    const isRow = alike.length >= leastFailed && areInRow(alike, options.groupOf ? 1 : desired)
    const proof = isRow ? undefined : rowOf(events.get(group) ?? [])
    const latest = Math.max(last?.created ?? 0, proof?.last ?? 0)
    if ((!isRow && !proof) || now >= latest + rested) continue
    const namespace = namespaceOf(object)
    const needs: Need[] = [
      ...(last ? [['Pod', namespace] as const] : []),
      ...(proof || alike.some(({ isByEvent }) => isByEvent) ? [['Event', namespace] as const] : []),
    ]
    const count = proof?.count ?? alike.length
    const example = last ? `, e.g. ${last.name}` : ''
    return found(object, now, {
      reason: last?.reason ?? proof?.reason ?? '',
      text: `${count} Pods one after the other${example}: ${last?.text ?? proof?.message}`,
      rank: ranks.pod,
      since: proof?.first ?? alike.at(-1)?.created,
      last: latest,
      until: latest + rested,
      grace: 'grace' in options ? options.grace : 0,
      count,
      needs,
    })
  }
  return undefined
}

/** Returns the number of ready Pods, as the controller counts them. */
const readyOf = (object: KubernetesObject) =>
  numberAt(object, 'status.numberReady') ?? numberAt(object, 'status.readyReplicas') ?? 0

/** Returns failed Pods that exist, and remembered ones, newest first. */
function failedPods(object: KubernetesObject, around: Around): readonly Failed[] {
  const { now } = around
  const present = around.failedOf(object).map((pod) => ({
    uid: uidOf(pod),
    name: nameOf(pod),
    node: textAt(pod, 'spec.nodeName'),
    created: createdOf(pod, now) ?? 0,
    reason: textAt(pod, 'status.reason'),
    text: textAt(pod, 'status.message') || textAt(pod, 'status.reason'),
  }))
  const ends = around.endsOf(object).filter(({ isFromOutside }) => isFromOutside)
  return [...new Map<string, Failed>([...ends, ...present].map((one) => [one.uid, one])).values()]
    .filter(({ created }) => now - created < windowMs)
    .sort((one, other) => other.created - one.created || (one.name < other.name ? -1 : 1))
}

/** Returns the node, or the Pod, at which a controller deletes a failed Pod; '': the event does not say so. */
function subjectOf({ reason, message }: Evidence): string {
  if (reason === 'FailedDaemonPod') return /\bon node ([^\s,]{1,253})/.exec(message)?.[1] ?? ''
  return reason === 'RecreatingFailedPod' ? (/\bfailed Pod (\S{1,253})/.exec(message)?.[1] ?? '') : ''
}

/** Finds several deletions at one place, one after the other. */
function rowOf(events: readonly Evidence[]): Evidence | undefined {
  const last = newest(events)
  const count = events.reduce((sum, one) => sum + one.count, 0)
  const first = Math.min(...events.map((one) => one.first))
  return last && count >= leastFailed && last.last - first > 2 * togetherMs ? { ...last, count, first } : undefined
}

/** True if failed Pods replaced each other. One eviction may end many Pods at once: these are no row by themselves. */
function areInRow(failed: readonly Failed[], desired: number): boolean {
  if (failed.length >= desired + 2) return true
  let rounds = 1
  for (const [i, { created }] of failed.entries()) {
    const before = failed[i + 1]
    if (before && created - before.created > togetherMs) rounds++
  }
  return rounds >= leastFailed
}
