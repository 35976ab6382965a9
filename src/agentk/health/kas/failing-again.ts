import { type KubernetesObject, nameOf, namespaceOf, numberAt, textAt, uidOf } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Evidence, newest } from './evidence.ts'
import { type Finding, found, minute, type Need, ranks, second } from './finding.ts'
import type { PodEnd } from './pod-ends.ts'

/** Pods that failed for good are a loop from so many on. */
const leastFailed = 3
/** Pods that are made sooner one after the other are made together. ms */
const togetherMs = 5 * second
/** The loop has ended if no Pod has failed for so long. ms */
const restedMs = 10 * minute
/** A place rests for so long: a DaemonSet waits up to a quarter of an hour for its next Pod. ms */
const placeRestedMs = 20 * minute
/** Older Pods are of another loop. ms */
const windowMs = 60 * minute
/** Its node is shut down: that passes, however many Pods are made for it until then. */
const isOfNode = /^(?:Terminated|NodeShutdown|Shutdown)$/

export interface FailingOptions {
  /** Pods that are there at a time, as they should be */
  readonly desired: number
  /** Pods that take each other's place have the same; absent: all */
  readonly groupOf?: (pod: Pick<PodEnd, 'name' | 'node'>) => string
  /** default: Degraded at once */
  readonly grace?: number | undefined
}

type Failed = Pick<PodEnd, 'uid' | 'name' | 'node' | 'created' | 'reason' | 'text' | 'isByEvent'>

/**
 * Finds Pods that fail again and again: they were evicted, or the kubelet refused them, and their maker makes others. No restart counts it,
 * and in between they may be ready.
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

/** Pods that are ready, as its controller counts them. */
const readyOf = (object: KubernetesObject) =>
  numberAt(object, 'status.numberReady') ?? numberAt(object, 'status.readyReplicas') ?? 0

/** Failed Pods that are there, and remembered ones, the last first. */
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

/** The node, or the Pod, of which a controller says that it deletes a failed one there; '': it says nothing of that. */
function subjectOf({ reason, message }: Evidence): string {
  if (reason === 'FailedDaemonPod') return /\bon node ([^\s,]{1,253})/.exec(message)?.[1] ?? ''
  return reason === 'RecreatingFailedPod' ? (/\bfailed Pod (\S{1,253})/.exec(message)?.[1] ?? '') : ''
}

/** Several deletions at one place, one after the other. */
function rowOf(events: readonly Evidence[]): Evidence | undefined {
  const last = newest(events)
  const count = events.reduce((sum, one) => sum + one.count, 0)
  const first = Math.min(...events.map((one) => one.first))
  return last && count >= leastFailed && last.last - first > 2 * togetherMs ? { ...last, count, first } : undefined
}

/** One eviction may end many Pods at once. They are a row if the Pods that took their places have failed too. */
function areInRow(failed: readonly Failed[], desired: number): boolean {
  if (failed.length >= desired + 2) return true
  let rounds = 1
  for (const [i, { created }] of failed.entries()) {
    const before = failed[i + 1]
    if (before && created - before.created > togetherMs) rounds++
  }
  return rounds >= leastFailed
}
