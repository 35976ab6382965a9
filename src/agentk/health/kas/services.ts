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
/** What a Service selects may come a moment after it. ms */
const newMs = minute
export const balancerMs = 2 * minute
/** Slices come a moment after the Service has other ports. ms */
const portsMs = minute
/** A busy controller makes the slices of a Service so long after it. ms */
const slicesMs = minute
/** ports that are searched; slices list them in the order of the Service */
const maxPorts = 64
/** characters of a port's name, as the API server has it */
const maxPortName = 63

/** Reasons of a Service that nobody answers. */
export const isWithoutEndpoints = (reason: string) =>
  reason === 'NoReadyEndpoints' || reason === 'SelectsNothing' || reason === 'ScaledToZero'

export function service(object: KubernetesObject, around: Around): Finding | undefined {
  return worstOf([unanswered(object, around), unbalanced(object, around)])
}

/** What a Service selects Pods by. Empty: it selects none itself. */
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
  // one that is not at zero says so, whatever the others are
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
 * Of a Service that sends to a port by a name that no Pod has. Its controller lists endpoints without the port then; of a
 * headless one they are addresses all the same.
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

/** Its endpoints take whatever port they are sent to. */
const isAnyPort = (port: KubernetesObject) => at(port, 'port') === undefined

/** What Services are judged by, of a slice. */
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

/** Of what makes Pods those that a caller must be able to list to get that there is none. */
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

/** Of findings that are as bad the one that most callers may get goes first, in whichever order Pods have come. */
function byNeeds({ needs: one }: Finding, { needs: other }: Finding): number {
  return one.length - other.length || (String(one) < String(other) ? -1 : 1)
}

/** Whether a slice has an endpoint that may be sent to. */
function hasReady(slice: KubernetesObject): boolean {
  return listAt(slice, 'endpoints').some((endpoint) => field(field(endpoint, 'conditions'), 'ready') !== false)
}

function isAtZero(workload: KubernetesObject): boolean {
  if (textAt(workload, 'kind') === 'DaemonSet') return numberAt(workload, 'status.desiredNumberScheduled') === 0
  return numberAt(workload, 'spec.replicas') === 0
}

/** A controller's word for a balancer that it cannot make. */
export const isUnbalanced = (reason: string) =>
  /^(?:SyncLoadBalancerFailed|UnAvailableLoadBalancer|AllocationFailed|Failed(?:Build|Deploy)Model|Translate|Sync)$/.test(
    reason,
  )

/** Of a Service that waits for its address. */
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
