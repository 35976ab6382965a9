import { field, namespaceOf, textAt } from '../../../../kubernetes/object.ts'
import { type Around, isMissing } from '../around.ts'
import { newest } from '../evidence.ts'
import { type Finding, found, minute, ranks, second } from '../finding.ts'
import { type Container, fromOf, type PodContext, waitingOf } from './container.ts'

/** Reasons of events, and only events, of a Pod whose containers cannot be made. */
const creatingReasons: ReadonlySet<string> = new Set([
  'FailedMount',
  'FailedAttachVolume',
  'FailedMapVolume',
  'FailedCreatePodSandBox',
  'NetworkNotReady',
])
/** Time in which a volume or a network may come. ms */
const creatingMs = 2 * minute
/** Matches a missing source of a volume, which is also how a missing source of an environment reads. */
const isAbsent = /\b(?:secret|configmap) "[^"]{1,253}" not found/
/** Matches an event without a cause: the kubelet waited for volumes, and its other events have the reason. */
const isVague =
  /^Unable to attach or mount volumes: .*(?:timed out waiting for the condition|context deadline exceeded)$/
/** Time without an event, in which images may be pulled. ms */
const noEventMs = 10 * minute

export const isCreating = (reason: string) => reason === 'ContainerCreating' || reason === 'PodInitializing'

/** True for a reason of a Pod whose containers are being made. */
export const isOfCreation = (reason: string) => isCreating(reason) || creatingReasons.has(reason)

/** Judges a Pod on a node whose containers are not made yet. `container` undefined: no container has a status. */
export function creatingOf(context: PodContext, container: Container | undefined): Finding {
  const { pod, now, since, evidence } = context
  const from = container ? fromOf(context, container) : since
  const events = evidence.filter(({ reason }) => creatingReasons.has(reason))
  const event = newest(events.filter(({ message }) => !isVague.test(message))) ?? newest(events)
  if (event) {
    const needs = [['Event', namespaceOf(pod)]] as const
    return found(pod, now, {
      reason: event.reason,
      text: event.message,
      rank: ranks.pod,
      since: since ?? event.first,
      last: event.last,
      grace: isAbsent.test(event.message) ? refusedMs : creatingMs,
      from: from ?? event.first,
      needs,
    })
  }
  const waiting = container && waitingOf(container)
  const text = waiting?.message || (container ? 'containers are being made' : 'the kubelet has not begun')
  const reason = waiting?.reason || 'ContainerCreating'
  return found(pod, now, { reason, text, rank: ranks.pod, since, grace: noEventMs, from })
}

/** Time in which a node may follow its Pods. ms */
const nodeMs = 10 * second

/** Finds a Pod on a node that does not exist. No kubelet has begun it, and such Pods are deleted each minute. */
export function missingNodeOf({ pod, now, since }: PodContext, around: Around): Finding | undefined {
  const name = textAt(pod, 'spec.nodeName')
  const hasBegun = field(pod.status, 'startTime') !== undefined || field(pod.status, 'containerStatuses') !== undefined
  if (hasBegun || !isMissing(around, 'Node', '', name)) return undefined
  // Pods may be known before nodes are
  if (around.taints(namespaceOf(pod), []) === undefined) return undefined
  return found(pod, now, {
    reason: 'NodeMissing',
    text: `node ${name} does not exist`,
    rank: ranks.pod,
    since,
    grace: nodeMs,
    from: since,
    needs: [['Node', '']],
  })
}

/** Grace where the Pod asks for an object that does not exist, or the runtime refuses. ms */
const refusedMs = 60 * second
const refusedReasons: ReadonlySet<string> = new Set([
  'CreateContainerConfigError',
  'CreateContainerError',
  'PreCreateHookError',
  'PreStartHookError',
  'PostStartHookError',
])
/** Matches a kubelet that does not know an object which was made a moment ago. */
const notYetSynced = /failed to sync \w+ cache/

/** grace of any other reason, in ms */
const waitingMs = 2 * minute

/** Judges a container that waits, but not for its image, and not after a crash. */
export function waitsOf(context: PodContext, container: Container): Finding | undefined {
  const waiting = waitingOf(container)
  if (!waiting) return undefined
  const { pod, now, since } = context
  const isRefused = refusedReasons.has(waiting.reason)
  const grace = isRefused ? (notYetSynced.test(waiting.message.slice(0, 1024)) ? undefined : refusedMs) : waitingMs
  return found(pod, now, {
    reason: waiting.reason || 'Waiting',
    text: `container ${container.name}: ${waiting.message || waiting.reason || 'waits'}`,
    rank: ranks.container,
    since,
    grace,
    from: fromOf(context, container),
    about: container.name,
  })
}
