import { conditionsAt } from '../../../kubernetes/conditions.ts'
import { at, type KubernetesObject, listAt, nameOf, textAt } from '../../../kubernetes/object.ts'
import { createdOf, timeOf } from '../../../kubernetes/time.ts'
import type { Around } from './around.ts'
import { type Finding, finding, found, minute, ranks } from './finding.ts'

/** Time in which a new node gets its network and becomes ready. ms */
const newMs = 5 * minute
/** Taint that a kubelet with an external cloud provider sets. Its cloud-controller-manager removes the taint. */
const uninitialized = 'node.cloudprovider.kubernetes.io/uninitialized'
const pressures: ReadonlySet<string> = new Set(['MemoryPressure', 'DiskPressure', 'PIDPressure'])

/** Conditions of node-problem-detector and the like that are bad if True. Other types may be good if True. */
const problems: ReadonlySet<string> = new Set([
  'KernelDeadlock',
  'ReadonlyFilesystem',
  'CorruptDockerOverlay2',
  'CperHardwareErrorFatal',
  'XfsShutdown',
  'FilesystemCorruptionProblem',
  'DiskProblem',
  'KubeletProblem',
  'KubeletUnhealthy',
  'ContainerRuntimeProblem',
  'ContainerRuntimeUnhealthy',
  'FrequentKubeletRestart',
  'FrequentDockerRestart',
  'FrequentContainerdRestart',
  'FrequentUnregisterNetDevice',
  'GcpHealthCheckerKubelet',
])
/** Conditions of node monitoring agents that are bad if False. */
const readiness: ReadonlySet<string> = new Set([
  'KernelReady',
  'StorageReady',
  'NetworkingReady',
  'ContainerRuntimeReady',
  'AcceleratedHardwareReady',
])

export const isNotReady = (reason: string) => reason === 'NodeNotReady' || reason === 'NodeUnreachable'

export function node(object: KubernetesObject, { now }: Around): Finding | undefined {
  const conditions = conditionsAt(object, now)
  const name = nameOf(object)
  const base = { rank: ranks.foundation, about: name }
  const ready = conditions.find(({ type }) => type === 'Ready')
  const from = createdOf(object, now)
  if (ready && ready.status !== 'True') {
    const reason = ready.status === 'False' ? 'NodeNotReady' : 'NodeUnreachable'
    const text = `node ${name}: ${ready.message || ready.reason}`
    return found(object, now, { ...base, reason, text, since: ready.since, grace: newMs, from })
  }
  const pressed = conditions.find(
    ({ type, status }) =>
      (status === 'True' && (pressures.has(type) || problems.has(type))) || (status === 'False' && readiness.has(type)),
  )
  if (pressed) {
    const text = `node ${name}: ${pressed.message || pressed.reason}`
    return found(object, now, { ...base, reason: pressed.type, text, since: pressed.since, grace: 0 })
  }
  const apart = conditions.find(({ type, status }) => type === 'NetworkUnavailable' && status === 'True')
  if (apart) {
    const text = `node ${name}: ${apart.message || apart.reason}`
    return found(object, now, { ...base, reason: apart.type, text, since: apart.since, grace: newMs, from })
  }
  const taintOf = (key: string) => listAt(object, 'spec.taints').find((one) => one.key === key)
  if (taintOf(uninitialized)) {
    const text = `node ${name} takes no Pods: its cloud provider has not initialized it (taint ${uninitialized})`
    return found(object, now, { ...base, reason: 'Uninitialized', text, since: from, grace: newMs, from })
  }
  if (at(object, 'spec.unschedulable') !== true) return undefined
  const taint = taintOf('node.kubernetes.io/unschedulable')
  const since = timeOf(textAt(taint, 'timeAdded'), now)
  return finding('Suspended', { ...base, reason: 'Cordoned', text: `node ${name} takes no new Pods`, since })
}
