import {
  at,
  field,
  type KubernetesObject,
  kindOf,
  listAt,
  nameOf,
  namespaceOf,
  numberAt,
  textAt,
  textField,
} from '../../../kubernetes/object.ts'
import { createdOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { newest } from './evidence.ts'
import { type Finding, finding, found, minute, type Need, ranks, severityOf, worstOf } from './finding.ts'
import { hasEnded, isEnding, labelTableOf } from './read.ts'
import { bounded } from './text.ts'

const sliceKind = 'discovery.k8s.io/EndpointSlice'
/** Time in which objects that a Service selects may follow it. ms */
const newMs = minute
export const balancerMs = 2 * minute
/** Time in which slices follow a change of the Service's ports. ms */
const portsMs = minute
/** Time in which a busy controller makes the slices of a Service. ms */
const slicesMs = minute
/** limit of the ports that are searched; slices list them in the order of the Service */
const maxPorts = 64
/** limit of the characters of a port's name, as in the API server */
const maxPortName = 63

/** True for reasons of a Service that nobody answers. */
export const isWithoutEndpoints = (reason: string) =>
  reason === 'NoReadyEndpoints' || reason === 'SelectsNothing' || reason === 'ScaledToZero'

export function service(object: KubernetesObject, around: Around): Finding | undefined {
  return worstOf([unanswered(object, around), unbalanced(object, around)])
}

/** Returns the labels by which a Service selects Pods. Empty: it selects none itself. */
export function selectorOf(service: KubernetesObject) {
  return textAt(service, 'spec.type') === 'ExternalName' ? [] : labelTableOf(at(service, 'spec.selector'))
}

function unanswered(object: KubernetesObject, around: Around): Finding | undefined {
  const selector = selectorOf(object)
  const namespace = namespaceOf(object)
  if (selector.length === 0 || ![sliceKind, 'Pod'].every((kind) => around.isLive(kind, namespace))) return undefined
  const slices = around.slicesOf(object)
  if (slices.some(hasReady)) return unreached(object, around, slices)
  const needs: Need[] = [
    [sliceKind, namespace],
    ['Pod', namespace],
  ]
  const pods = around.podsOf(namespace, selector)
  const alive = pods.filter((pod) => !isEnding(pod))
  if (alive.length > 0) return byPods(object, around, alive, needs)
  const leaving = pods.filter((pod) => !hasEnded(pod))
  if (leaving.length > 0) return byPods(object, around, leaving, needs)
  const workloads = around.workloadsOf(namespace, selector)
  // a workload that is not at zero decides, whatever the others are
  const workload = workloads.find((one) => !isAtZero(one)) ?? workloads[0]
  if (workload) return byWorkload(object, around, workload, needs)
  if (pods.length > 0) return byPods(object, around, pods, needs)
  const absent = makers.map((kind): Need => [kind, namespace])
  if (!makers.every((kind) => around.isLive(kind, namespace))) return undefined
  const selected = selector.map(([name, value]) => `${name}=${value}`).join(',')
  return found(object, around.now, {
    reason: 'SelectsNothing',
    text: `no Pod has ${selected}`,
    rank: ranks.other,
    grace: newMs,
    from: createdOf(object, around.now),
    needs: [...absent, ...needs],
  })
}

/**
 * Finds a Service that sends to a named port that no Pod has. Its controller then lists endpoints without the port. The
 * endpoints of a headless Service are addresses all the same.
 */
function unreached(object: KubernetesObject, around: Around, slices: readonly KubernetesObject[]): Finding | undefined {
  if (textAt(object, 'spec.clusterIP') === 'None' || slices.some((slice) => at(slice, 'ports') === undefined))
    return undefined
  const ports = slices.flatMap((slice) => listAt(slice, 'ports'))
  if (ports.some(isAnyPort)) return undefined
  const names = new Set(ports.map((port) => textField(port, 'name')))
  const missing = listAt(object, 'spec.ports')
    .slice(0, maxPorts)
    .find((port) => textField(port, 'targetPort') !== '' && !names.has(textField(port, 'name')))
  if (!missing) return undefined
  return found(object, around.now, {
    reason: 'PortMissing',
    text: `no Pod has a port named "${textField(missing, 'targetPort')}"`,
    rank: ranks.other,
    grace: portsMs,
    from: around.now,
    needs: [[sliceKind, namespaceOf(object)]],
  })
}

/** True if the endpoints take any port. */
const isAnyPort = (port: KubernetesObject) => at(port, 'port') === undefined

/** Returns the fields of a slice by which Services are judged. */
export function sliceTraits(slice: KubernetesObject): KubernetesObject {
  const known = at(slice, 'ports') === undefined ? {} : { ports: portsOf(slice) }
  return { endpoints: [{ conditions: { ready: hasReady(slice) } }], ...known }
}

function portsOf(slice: KubernetesObject): readonly KubernetesObject[] {
  return listAt(slice, 'ports')
    .slice(0, maxPorts)
    .map((port) => ({ name: textField(port, 'name').slice(0, maxPortName), port: numberAt(port, 'port') }))
}

function byWorkload(object: KubernetesObject, around: Around, workload: KubernetesObject, needs: Need[]): Finding {
  const base = { rank: ranks.other, needs: [...needs, [kindOf(workload), namespaceOf(object)] as const] }
  if (isAtZero(workload))
    return finding('Suspended', { ...base, reason: 'ScaledToZero', text: `${nameOf(workload)} has no replicas` })
  return found(object, around.now, {
    ...base,
    reason: 'NoReadyEndpoints',
    text: 'no Pod is there yet',
    grace: undefined,
  })
}

/** Kinds that a caller must be able to list to see that no workload makes the Pods. */
const makers = ['apps/Deployment', 'apps/StatefulSet']

function byPods(object: KubernetesObject, around: Around, pods: readonly KubernetesObject[], needs: Need[]): Finding {
  const worst = worstOf(pods.flatMap((pod) => around.findingsOf(pod)[0] ?? []).toSorted(byNeeds))
  const isBad = worst !== undefined && severityOf(worst.word) >= severityOf('Degraded')
  if (around.slicesOf(object).length === 0 && pods.every((pod) => around.wordOf(pod) === 'Healthy')) {
    const isOne = pods.length === 1
    const text = `${isOne ? 'its Pod is' : `its ${pods.length} Pods are`} ready, and no EndpointSlice lists ${isOne ? 'it' : 'them'}`
    const base = { reason: 'NoReadyEndpoints', rank: ranks.other, needs }
    return found(object, around.now, { ...base, text, grace: slicesMs, from: around.now })
  }
  return found(object, around.now, {
    reason: 'NoReadyEndpoints',
    text: bounded(`none of ${pods.length === 1 ? 'one Pod' : `${pods.length} Pods`} is ready`),
    rank: ranks.other,
    grace: isBad ? newMs : undefined,
    from: createdOf(object, around.now),
    needs: [...needs, ...(worst?.needs ?? []).filter(([kind]) => !needs.some(([known]) => known === kind))],
  })
}

/** Orders equally bad findings: the one that most callers may see comes first, in whatever order Pods come. */
function byNeeds({ needs: one }: Finding, { needs: other }: Finding): number {
  return one.length - other.length || (String(one) < String(other) ? -1 : 1)
}

/** True if a slice has an endpoint that may receive requests. */
function hasReady(slice: KubernetesObject): boolean {
  return listAt(slice, 'endpoints').some((endpoint) => field(field(endpoint, 'conditions'), 'ready') !== false)
}

function isAtZero(workload: KubernetesObject): boolean {
  if (textAt(workload, 'kind') === 'DaemonSet') return numberAt(workload, 'status.desiredNumberScheduled') === 0
  return numberAt(workload, 'spec.replicas') === 0
}

/** True for a controller's reason for a balancer that it cannot make. */
export const isUnbalanced = (reason: string) =>
  /^(?:SyncLoadBalancerFailed|UnAvailableLoadBalancer|AllocationFailed|Failed(?:Build|Deploy)Model|Translate|Sync)$/.test(
    reason,
  )

/** Judges a Service that waits for its address. */
function unbalanced(object: KubernetesObject, around: Around): Finding | undefined {
  if (textAt(object, 'spec.type') !== 'LoadBalancer') return undefined
  if (listAt(object, 'status.loadBalancer.ingress').length > 0) return undefined
  const { now } = around
  const base = { rank: ranks.other, since: createdOf(object, now) }
  const event = newest(around.eventsOf(object).filter(({ reason }) => isUnbalanced(reason)))
  if (!event)
    return found(object, now, { ...base, reason: 'LoadBalancerPending', text: 'no address yet', grace: undefined })
  const { reason, message, last, first } = event
  const needs: Need[] = [['Event', namespaceOf(object)]]
  return found(object, now, { ...base, reason, text: message, last, grace: balancerMs, from: first, needs })
}
