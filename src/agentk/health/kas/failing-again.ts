import { type KubernetesObject, kindOf, nameOf, namespaceOf, numberAt, textAt } from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Finding, found, minute, ranks, second } from './finding.ts'

/** Pods that failed for good are a loop from so many on. */
const leastFailed = 3
/** Pods that are made sooner one after the other are made together. ms */
const togetherMs = 5 * second
/** The loop has ended if no Pod has failed for so long. ms */
const restedMs = 10 * minute
/** Older Pods are of another loop. ms */
const windowMs = 60 * minute

/**
 * Finds Pods that fail again and again: they were evicted, or the kubelet refused them, and their maker makes others. No restart counts it,
 * and in between they may be ready.
 */
export function failingAgain(object: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const desired = numberAt(object, 'spec.replicas') ?? 1
  if (desired === 0) return undefined
  const failed = around
    .failedOf(object)
    .map((pod) => ({ pod, created: createdOf(pod, now) ?? 0 }))
    .filter(({ created }) => now - created < windowMs)
    .sort((one, other) => other.created - one.created || (nameOf(one.pod) < nameOf(other.pod) ? -1 : 1))
  const [last] = failed
  if (!last) return undefined
  const reason = textAt(last.pod, 'status.reason')
  const alike = failed.filter(({ pod }) => textAt(pod, 'status.reason') === reason)
  const until = last.created + restedMs
  if (alike.length < leastFailed || now >= until || !areInRow(alike, desired)) return undefined
  const message = textAt(last.pod, 'status.message')
  const times = `${alike.length} Pods one after the other, e.g. ${nameOf(last.pod)}`
  return found(object, now, {
    reason,
    text: `${times}: ${message || reason}`,
    rank: ranks.pod,
    since: alike.at(-1)?.created,
    last: last.created,
    until,
    grace: 0,
    count: alike.length,
    needs: [[kindOf(last.pod), namespaceOf(object)]],
  })
}

/** One eviction may end many Pods at once. They are a row if the Pods that took their places have failed too. */
function areInRow(failed: readonly { readonly created: number }[], desired: number): boolean {
  if (failed.length >= desired + 2) return true
  let rounds = 1
  for (const [i, { created }] of failed.entries()) {
    const before = failed[i + 1]
    if (before && created - before.created > togetherMs) rounds++
  }
  return rounds >= leastFailed
}
