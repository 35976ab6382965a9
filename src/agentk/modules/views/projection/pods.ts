import { type KubernetesObject, listAt, numberAt, textAt } from '../../../health/object.ts'
import type { Projector } from './projector.ts'

/** What every container waits with for a while. */
const usual = ['ContainerCreating', 'PodInitializing']

export const pod: Projector = (object) => {
  const containers = listAt(object, 'status.containerStatuses')
  const initial = listAt(object, 'status.initContainerStatuses')
  const ready = containers.filter((container) => container.ready === true).length
  const restarts = [...initial, ...containers].reduce((sum, one) => sum + (numberAt(one, 'restartCount') ?? 0), 0)
  const node = textAt(object, 'spec.nodeName')
  return {
    facts: [
      stateOf(object, initial, containers),
      containers.length ? `${ready}/${containers.length} ready` : '',
      restarts ? `${restarts} ${restarts === 1 ? 'restart' : 'restarts'}` : '',
      node ? `node ${node}` : '',
    ],
  }
}

/** As kubectl has it, in short: what keeps a container from its start, else the phase. */
function stateOf(
  object: KubernetesObject,
  initial: readonly KubernetesObject[],
  containers: readonly KubernetesObject[],
): string {
  const first = waitingOf(initial)
  if (first) return `Init:${first}`
  return waitingOf(containers) || textAt(object, 'status.reason') || textAt(object, 'status.phase')
}

function waitingOf(containers: readonly KubernetesObject[]): string {
  const reasons = containers.map((container) => textAt(container, 'state.waiting.reason'))
  return reasons.find((reason) => reason !== '' && !usual.includes(reason)) ?? ''
}
