import {
  at,
  field,
  type KubernetesObject,
  listField,
  numberAt,
  textAt,
  textField,
} from '../../../../kubernetes/object.ts'
import { timeOf } from '../../../../kubernetes/time.ts'
import type { Evidence } from '../evidence.ts'
import type { Finding } from '../finding.ts'

/** A container of a Pod, by its spec and the kubelet's status. */
export interface Container {
  readonly name: string
  readonly place: 'init' | 'sidecar' | 'main'
  readonly spec: KubernetesObject
  readonly status: KubernetesObject
  readonly restarts: number
}

/** Facts about the Pod around a container. Times are ms since 1970. */
export interface PodContext {
  readonly pod: KubernetesObject
  readonly now: number
  /** time since which the Pod is not ready, else since it began */
  readonly since: number | undefined
  /** time at which its init containers had ended; undefined: it has none, or they have not */
  readonly initialized: number | undefined
  /** time at which Ready last changed */
  readonly readySince: number | undefined
  /** '': the Pod has no such condition */
  readonly ready: string
  readonly evidence: readonly Evidence[]
  /** last finding on the Pod */
  readonly before: Finding | undefined
}

/** A life of a container that has ended. Times are ms since 1970; undefined: the runtime does not know them. */
export interface EndedLife {
  readonly reason: string
  /** undefined: unknown */
  readonly exitCode: number | undefined
  readonly signal: number
  readonly message: string
  readonly started: number | undefined
  readonly finished: number | undefined
}

/** Returns containers in the order in which they start: init, sidecars, others. */
export function containersOf(pod: KubernetesObject): readonly Container[] {
  const init = pair(pod, 'initContainers', 'initContainerStatuses', (spec) =>
    textField(spec, 'restartPolicy') === 'Always' ? 'sidecar' : 'init',
  )
  const main = pair(pod, 'containers', 'containerStatuses', () => 'main')
  const only = (place: Container['place']) => init.filter((one) => one.place === place)
  return init.length === 0 ? main : [...only('init'), ...only('sidecar'), ...main]
}

function pair(
  pod: KubernetesObject,
  specs: string,
  statuses: string,
  placeOf: (spec: KubernetesObject) => Container['place'],
): readonly Container[] {
  const found = listField(pod.status, statuses)
  if (found.length === 0) return []
  const byName = new Map(listField(pod.spec, specs).map((spec) => [textField(spec, 'name'), spec]))
  return found.map((status) => {
    const name = textField(status, 'name')
    const spec = byName.get(name) ?? {}
    return { name, place: placeOf(spec), spec, status, restarts: numberAt(status, 'restartCount') ?? 0 }
  })
}

export function waitingOf({ status }: Container) {
  const waiting = field(field(status, 'state'), 'waiting')
  if (typeof waiting !== 'object' || waiting === null) return undefined
  return { reason: textField(waiting, 'reason'), message: textField(waiting, 'message') }
}

/** @returns the time of its start, 0: not known; undefined: it does not run */
export function runningSince({ status }: Container, now: number): number | undefined {
  const running = field(field(status, 'state'), 'running')
  if (typeof running !== 'object' || running === null) return undefined
  return timeOf(textField(running, 'startedAt'), now) ?? 0
}

/** @param of - the present state, or the one before */
export function endedLife({ status }: Container, of: 'state' | 'lastState', now: number): EndedLife | undefined {
  const ended = field(field(status, of), 'terminated')
  if (typeof ended !== 'object' || ended === null) return undefined
  return {
    reason: textField(ended, 'reason'),
    exitCode: numberAt(ended, 'exitCode') ?? 0,
    signal: numberAt(ended, 'signal') ?? 0,
    message: textField(ended, 'message'),
    started: timeOf(textField(ended, 'startedAt'), now),
    finished: timeOf(textField(ended, 'finishedAt'), now),
  }
}

/** True if the kubelet starts it again after such an end. */
export function restarts(pod: KubernetesObject, { place, spec }: Container, { exitCode }: EndedLife): boolean {
  const policy = textField(spec, 'restartPolicy') || textAt(pod, 'spec.restartPolicy') || 'Always'
  if (exitCode !== undefined && listField(spec, 'restartPolicyRules').some((rule) => restartsBy(rule, exitCode)))
    return true
  if (policy === 'Never') return false
  return exitCode !== 0 || (policy === 'Always' && place !== 'init')
}

/** True if a rule of the container restarts it. These rules exist since Kubernetes 1.34, and precede the policy. */
function restartsBy(rule: KubernetesObject, exitCode: number): boolean {
  if (textField(rule, 'action') !== 'Restart' && textField(rule, 'action') !== 'RestartAllContainers') return false
  const values = at(rule, 'exitCodes.values')
  const isAmong = Array.isArray(values) && values.includes(exitCode)
  return textAt(rule, 'exitCodes.operator') === 'NotIn' ? !isAmong : isAmong
}

/** a signal's exit code is this plus the signal */
const signalBase = 128
const lastSignal = 64

/** Describes an end with the last words: `out of memory (memory limit 64Mi), exit code 137 (OOMKilled)`. */
export function endOf({ exitCode, signal, reason, message }: EndedLife, { spec }: Container): string {
  const words = lastWords(message)
  if (exitCode === undefined) return [reason || 'has ended', words].filter((part) => part !== '').join(': ')
  const limit = textAt(spec, 'resources.limits.memory')
  const memory = reason === 'OOMKilled' ? `out of memory${limit && ` (memory limit ${limit})`}, ` : ''
  const by = signal || (exitCode > signalBase && exitCode <= signalBase + lastSignal ? exitCode - signalBase : 0)
  const how = reason !== '' && reason !== 'Error' && reason !== 'Completed' ? reason : by > 0 ? `signal ${by}` : ''
  return `${memory}exit code ${exitCode}${how && ` (${how})`}${words && `: ${words}`}`
}

/** Returns the last words of a container, without those that the kubelet writes itself. */
function lastWords(message: string): string {
  return message.startsWith('Error on reading termination message') ? '' : message
}

/** Returns when a container's own time began: after init containers had ended, and once it runs. ms since 1970 */
export function fromOf(context: PodContext, container: Container): number | undefined {
  const initialized = container.place === 'main' ? context.initialized : undefined
  const times = [context.since, initialized, runningSince(container, context.now)].filter((time) => time !== undefined)
  return times.length > 0 ? Math.max(...times) : undefined
}
