import {
  at,
  isBeingDeleted,
  type KubernetesObject,
  listAt,
  numberAt,
  textAt,
  textField,
} from '../../../../kubernetes/object.ts'
import { isLostWithNode } from '../../../health/kas/pods/readiness.ts'
import { claimNameOf, hasEnded } from '../../../health/kas/read.ts'
import { maxName } from './bounds.ts'
import type { Projector, Reference } from './projector.ts'

/** Reasons with which every container waits for a while. */
const usual = ['ContainerCreating', 'PodInitializing']

/** kubectl's word for an object that is being deleted. */
export const terminating = 'Terminating'

export const pod: Projector = (object) => {
  const containers = listAt(object, 'status.containerStatuses')
  const initial = listAt(object, 'status.initContainerStatuses')
  const ready = containers.filter((container) => container.ready === true).length
  const restarts = [...initial, ...containers].reduce((sum, one) => sum + (numberAt(one, 'restartCount') ?? 0), 0)
  const node = textAt(object, 'spec.nodeName')
  const state = stateOf(object, initial, containers)
  const readiness = containers.length ? `${ready}/${containers.length} ready` : ''
  const isTerminating = isBeingDeleted(object) && !hasEnded(object)
  const known = isLostWithNode(object)
    ? [isTerminating ? terminating : 'Unknown', `last known: ${state} ${readiness}`]
    : [isTerminating ? terminating : state, readiness]
  return {
    facts: [
      ...known,
      restarts ? `${restarts} ${restarts === 1 ? 'restart' : 'restarts'}` : '',
      node ? `node ${node}` : '',
    ],
    references: referencesOf(object),
    node,
  }
}

/** volumes, their sources, and containers that are read for references */
const maxRead = 32
/** Names that every Pod has, and that are left out. */
const usualNames: ReadonlySet<string> = new Set(['', 'kube-root-ca.crt', 'ServiceAccount default'])

/** Last list of references: Pods of one template have the same, and come one after the other, so they share it. */
let last: { readonly key: string; readonly references: readonly Reference[] } = { key: '', references: [] }

function referencesOf(pod: KubernetesObject): readonly Reference[] {
  const namespace = textAt(pod, 'metadata.namespace')
  const named = namedBy(pod).filter(
    ([, kind, name]) => !usualNames.has(name) && !usualNames.has(`${kind} ${name}`) && name.length <= maxName,
  )
  const key = `${namespace}\n${named.join('\n')}`
  if (key !== last.key) {
    last = { key, references: named.map(([relation, kind, name]) => ({ relation, kind, namespace, name })) }
  }
  return last.references
}

type Named = readonly [relation: string, kind: string, name: string]

function namedBy(pod: KubernetesObject): Named[] {
  const named: Named[] = [['uses', 'ServiceAccount', textAt(pod, 'spec.serviceAccountName')]]
  for (const volume of listAt(pod, 'spec.volumes').slice(0, maxRead)) named.push(...namedByVolume(pod, volume))
  for (const list of ['spec.initContainers', 'spec.containers']) {
    for (const container of listAt(pod, list).slice(0, maxRead)) named.push(...namedByVariables(container))
  }
  return named
}

function namedByVolume(pod: KubernetesObject, volume: KubernetesObject): Named[] {
  return [
    ['mounts', 'PersistentVolumeClaim', claimNameOf(pod, volume)],
    ['mounts', 'ConfigMap', textField(volume.configMap, 'name')],
    ['mounts', 'Secret', textField(volume.secret, 'secretName')],
    ...listAt(volume, 'projected.sources')
      .slice(0, maxRead)
      .flatMap((source): Named[] => [
        ['mounts', 'ConfigMap', textField(source.configMap, 'name')],
        ['mounts', 'Secret', textField(source.secret, 'name')],
      ]),
  ]
}

function namedByVariables(container: KubernetesObject): Named[] {
  const all = listAt(container, 'envFrom').slice(0, maxRead)
  const single = listAt(container, 'env')
    .slice(0, maxRead)
    .flatMap(({ valueFrom }) => (typeof valueFrom === 'object' && valueFrom !== null ? [valueFrom] : []))
  return [
    ...all.flatMap((from): Named[] => [
      ['reads', 'ConfigMap', textField(from.configMapRef, 'name')],
      ['reads', 'Secret', textField(from.secretRef, 'name')],
    ]),
    ...single.flatMap((from): Named[] => [
      ['reads', 'ConfigMap', textAt(from, 'configMapKeyRef.name')],
      ['reads', 'Secret', textAt(from, 'secretKeyRef.name')],
    ]),
  ]
}

/** State as kubectl shows it, in short: the reason why a container does not start, else the phase. */
function stateOf(
  object: KubernetesObject,
  initial: readonly KubernetesObject[],
  containers: readonly KubernetesObject[],
): string {
  const first = hasEnded(object) ? '' : initialOf(object, initial)
  if (first) return `Init:${first}`
  return waitingOf(containers) || textAt(object, 'status.reason') || textAt(object, 'status.phase')
}

/** Reason why init containers wait or have failed, else how many have ended; '': all have, or there are none. */
function initialOf(object: KubernetesObject, initial: readonly KubernetesObject[]): string {
  const waiting = waitingOf(initial)
  if (waiting !== '' && !usual.includes(waiting)) return waiting
  const specs = listAt(object, 'spec.initContainers')
  const next = initial.findIndex((one, i) => !isPassed(one, specs[i]))
  if (next < 0) return ''
  const ended = at(initial[next], 'state.terminated')
  if (ended === undefined) return `${next}/${Math.max(specs.length, initial.length)}`
  return textAt(ended, 'reason') || `ExitCode:${numberAt(ended, 'exitCode') ?? 0}`
}

/** True if an init container has ended well, or is a sidecar that has started. */
function isPassed(status: KubernetesObject, spec: KubernetesObject | undefined): boolean {
  const ended = at(status, 'state.terminated')
  if (at(status, 'state') === undefined) return true // unknown
  if (ended !== undefined) return (numberAt(ended, 'exitCode') ?? 0) === 0
  return textAt(spec, 'restartPolicy') === 'Always' && at(status, 'started') === true
}

function waitingOf(containers: readonly KubernetesObject[]): string {
  const reasons = containers.map((container) => textAt(container, 'state.waiting.reason'))
  return reasons.find((reason) => reason !== '' && !usual.includes(reason)) || reasons.find((one) => one !== '') || ''
}
