import { conditionAt, conditionReason, conditionStatus } from '../../../../kubernetes/conditions.ts'
import {
  field,
  type KubernetesObject,
  listField,
  namespaceOf,
  textAt,
  textField,
} from '../../../../kubernetes/object.ts'
import { type Evidence, newest } from '../evidence.ts'
import { type Finding, found, minute, type Need, ranks, second } from '../finding.ts'
import { type Container, fromOf, type PodContext, runningSince } from './container.ts'

/** Time for a start. ms */
const startMs = 10 * minute
/** Time for which a container that was ready may be busy. ms */
const lostMs = 2 * minute
/** A change of Ready so soon after the start belongs to the start. ms */
const ofStartMs = 5 * second

/** Prefixes of probe events: of probes that were answered, and of those that could not be asked. */
const answered = /^(?:Readiness|Startup) probe failed[: ]*/
const unasked = /^(?:Readiness|Startup) probe errored(?: and resulted in \w{1,16} state)?[: ]*/
/** Matches a container that came or went, which is no failure of the probe. */
const isPassing = /^$|\bcontext cancell?ed\b|container is stopping|container (?:is )?not (?:found|running|created)/i

/** Returns the last answer to a probe of the container, or the reason why it cannot be asked. */
function newestOf({ evidence }: PodContext, container: Container, probe: string): Evidence | undefined {
  const of = evidence.filter(
    ({ reason, message, container: name }) =>
      reason === 'Unhealthy' && message.startsWith(probe) && (!name || name === container.name),
  )
  const isLasting = ({ message }: Evidence) => unasked.test(message) && !isPassing.test(message.replace(unasked, ''))
  return newest(of.filter(({ message }) => answered.test(message))) ?? newest(of.filter(isLasting))
}

/** Removes what the reason says already. */
const messageOf = ({ message }: Evidence) => message.replace(answered, '').replace(unasked, '') || message

/** Judges a container that runs and is not ready. */
export function unreadyOf(context: PodContext, container: Container): Finding | undefined {
  const { pod, now, since, readySince, ready } = context
  const started = runningSince(container, now)
  if (started === undefined || field(container.status, 'ready') === true) return undefined
  const base = { rank: ranks.container, since, about: container.name }
  const hasProbe = field(container.spec, 'readinessProbe')
  if (field(container.status, 'started') === false || !hasProbe) {
    const failed =
      field(container.status, 'started') === false ? newestOf(context, container, 'Startup probe ') : undefined
    const begun =
      container.place === 'init'
        ? notEnded(container.name)
        : `container ${container.name} has started, and is not ready yet`
    const text = failed ? `${begun}: ${failed.message}` : begun
    const needs: readonly Need[] = failed ? [['Event', namespaceOf(pod)]] : []
    // the kubelet ends no container for that, so it goes on for ever
    const isUnasked = failed !== undefined && unasked.test(failed.message)
    return found(pod, now, {
      ...base,
      reason: isUnasked ? 'StartupProbeFailed' : 'Starting',
      text,
      last: failed?.last,
      grace: isUnasked ? startMs : undefined,
      from: fromOf(context, container),
      needs,
    })
  }
  const event = newestOf(context, container, 'Readiness probe ')
  const wasReady = ready === 'False' && readySince !== undefined && started > 0 && readySince > started + ofStartMs
  return found(pod, now, {
    ...base,
    reason: 'ReadinessProbeFailed',
    text: `container ${container.name}: ${event ? messageOf(event) : 'its readiness probe does not succeed'}`,
    last: event?.last,
    grace: wasReady ? lostMs : startMs,
    from: fromOf(context, container),
    needs: event ? [['Event', namespaceOf(pod)]] : [],
  })
}

const notEnded = (name: string) => `init container ${name} has not ended`
/** True if the Pod waits for an init container, whose log says for what. */
export const isOfInit = (text: string) => /^init container \S{1,63} has not ended$/.test(text)

/** Judges a Pod that is not ready although its containers are. */
export function unreadyPod({ pod, now, ready, readySince }: PodContext): Finding | undefined {
  if (ready !== 'False' || !holds(pod, 'ContainersReady')) return undefined
  const lost = lostWithNode(pod, now)
  if (lost) return lost
  const missing = missingGates(pod)
  const text =
    conditionAt(pod, 'Ready', now)?.message || `waits for readiness gates: ${missing.slice(0, 10).join(', ')}`
  const base = { rank: ranks.pod, since: readySince }
  return found(pod, now, { ...base, reason: 'ReadinessGatesNotReady', text, grace: startMs })
}

/** Judges a Pod whose node does not report. */
export function lostWithNode(pod: KubernetesObject, now: number): Finding | undefined {
  if (!isLostWithNode(pod)) return undefined
  const text = `node ${textAt(pod, 'spec.nodeName')} is not ready`
  const since = conditionAt(pod, 'Ready', now)?.since
  return found(pod, now, { reason: 'NodeNotReady', text, rank: ranks.pod, since, grace: 0 })
}

/**
 * True if the node controller has taken Ready from the Pod, because its node does not report. Other fields of its
 * status are from before. The kubelet itself takes Ready from a Pod with ready containers only for readiness gates.
 */
export function isLostWithNode(pod: KubernetesObject): boolean {
  if (conditionStatus(pod, 'Ready') !== 'False' || !holds(pod, 'ContainersReady')) return false
  return missingGates(pod).length === 0 && conditionReason(pod, 'Ready') !== 'ReadinessGatesNotReady'
}

const holds = (pod: KubernetesObject, type: string) => conditionStatus(pod, type) === 'True'

/** Returns the readiness gates that are absent, or not True. */
function missingGates(pod: KubernetesObject): readonly string[] {
  const gates = listField(pod.spec, 'readinessGates').map((gate) => textField(gate, 'conditionType'))
  return gates.filter((gate) => !holds(pod, gate))
}
