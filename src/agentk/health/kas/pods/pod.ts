import { conditionAt, conditionStatus } from '../../../../kubernetes/conditions.ts'
import { field, type KubernetesObject, textField } from '../../../../kubernetes/object.ts'
import { createdOf, timeOf } from '../../../../kubernetes/time.ts'
import type { Around } from '../around.ts'
import { type Finding, found, minute, ranks, worstOf } from '../finding.ts'
import {
  type Container,
  containersOf,
  endedLife,
  endOf,
  type PodContext,
  restarts,
  runningSince,
  waitingOf,
} from './container.ts'
import { crashOf } from './crashes.ts'
import { creatingOf, isCreating, missingNodeOf, waitsOf } from './creating.ts'
import { failedPod, reasonOfEnd } from './failed.ts'
import { imageOf } from './images.ts'
import { unreadyOf, unreadyPod } from './readiness.ts'
import { resizeOf } from './resizing.ts'
import { unscheduledPod } from './scheduling.ts'

/** Judges a Pod that is not being deleted: by its worst container, else the Pod as a whole. */
export function podFinding(pod: KubernetesObject, around: Around): Finding | undefined {
  const { now } = around
  const phase = textField(pod.status, 'phase')
  if (phase === 'Succeeded') return undefined
  if (phase === 'Running' && isPlainlyWell(pod)) return resizeOf(pod, now)
  if (phase === 'Failed') return failedPod(pod, now)
  const unscheduled = unscheduledPod(pod, around)
  if (unscheduled) return unscheduled
  const containers = containersOf(pod)
  const context = contextOf(pod, around)
  if (containers.length === 0) {
    return context.ready === 'True' ? undefined : (missingNodeOf(context, around) ?? creatingOf(context, undefined))
  }
  const beside = runsOn(context, containers)
  if (beside) return beside
  const isInitializing = containers.some(isOnItsWay)
  const found = containers.map((one) => ofContainer(context, one, isInitializing))
  return worstOf(found) ?? unreadyPod(context) ?? resizeOf(pod, now)
}

/** Time for a sidecar of the old kind to notice that it is alone. ms */
const aloneMs = 2 * minute

/** Finds a container that has ended for good, in a Pod that should end, while another one runs on. */
function runsOn(context: PodContext, containers: readonly Container[]): Finding | undefined {
  const { pod, now } = context
  if (textField(pod.spec, 'restartPolicy') === 'Always' || textField(pod.spec, 'restartPolicy') === '') return undefined
  const main = containers.filter(({ place }) => place === 'main')
  const ended = main.flatMap((container) => {
    const life = endedLife(container, 'state', now)
    return life && !restarts(pod, container, life) ? [{ container, life }] : []
  })
  const running = main.filter((one) => runningSince(one, now) !== undefined)
  const failed = ended.find(({ life }) => life.exitCode !== 0)
  const first = failed ?? ended[0]
  if (!first || running.length === 0 || ended.length + running.length < main.length) return undefined
  const { life, container } = first
  const names = running.map(({ name }) => name).join(', ')
  const how = failed ? endOf(life, container) : 'exit code 0'
  const text = `container ${container.name} has ended (${how}), ${names} runs on: the Pod does not end`
  return found(pod, now, {
    reason: failed ? reasonOfEnd(life) : 'RunsOn',
    text,
    rank: ranks.container,
    since: life.finished,
    // the Pod fails whatever the others do, and is not tried again before they end
    grace: failed ? aloneMs : undefined,
    about: container.name,
  })
}

/** @param isInitializing - other containers wait for an init container, which has its own finding */
function ofContainer(context: PodContext, container: Container, isInitializing: boolean): Finding | undefined {
  const crash = crashOf(context, container)
  if (crash) return crash
  const waiting = waitingOf(container)
  if (waiting && (isCreating(waiting.reason) || waiting.reason === '')) {
    return isInitializing ? undefined : creatingOf(context, container)
  }
  return imageOf(context, container) ?? waitsOf(context, container) ?? unreadyOf(context, container)
}

/** True for an init container or a sidecar that has begun, and for which others wait. */
function isOnItsWay(container: Container): boolean {
  const { place, status } = container
  if (place === 'main') return false
  const waiting = waitingOf(container)
  if (waiting) return !isCreating(waiting.reason)
  const ended = field(field(status, 'state'), 'terminated')
  if (ended) return field(ended, 'exitCode') !== 0
  return !(place === 'sidecar' && field(status, 'started') === true)
}

/** True for the usual Pod, without reading more of it: it is ready, and no container has crashed twice. */
function isPlainlyWell(pod: KubernetesObject): boolean {
  if (conditionStatus(pod, 'Ready') !== 'True') return false
  const main = field(pod.status, 'containerStatuses')
  const init = field(pod.status, 'initContainerStatuses')
  return (
    Array.isArray(main) &&
    main.every(isPlainlyUp) &&
    (init === undefined || (Array.isArray(init) && init.every(isPlainlyUp)))
  )
}

function isPlainlyUp(status: unknown): boolean {
  const restarts = field(status, 'restartCount')
  if (field(status, 'ready') !== true || typeof restarts !== 'number' || restarts >= 2) return false
  const state = field(status, 'state')
  return field(state, 'waiting') === undefined && (field(field(state, 'terminated'), 'exitCode') ?? 0) === 0
}

function contextOf(pod: KubernetesObject, around: Around): PodContext {
  const { now } = around
  const ready = conditionAt(pod, 'Ready', now)
  const initialized = conditionAt(pod, 'Initialized', now)
  const begun = timeOf(textField(pod.status, 'startTime'), now) ?? createdOf(pod, now)
  return {
    pod,
    now,
    since: (ready?.status === 'False' ? ready.since : undefined) ?? begun,
    initialized: initialized?.status === 'True' ? initialized.since : undefined,
    readySince: ready?.since,
    ready: ready?.status ?? '',
    evidence: around.eventsOf(pod),
    before: around.before(pod),
  }
}
