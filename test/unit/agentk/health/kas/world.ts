import type tap from 'tap'
import { argoHealth } from '../../../../../src/agentk/health/argo/argo.ts'
import type { RuleVerdicts } from '../../../../../src/agentk/health/kas/opinion.ts'
import type { Judged } from '../../../../../src/agentk/health/kas/root-causes/judge.ts'
import { type KubernetesObject, kindOf } from '../../../../../src/kubernetes/object.ts'
import { judgedFor, Snapshot } from '../../../../support/situations/snapshot.ts'

/** Current time in the clusters of these tests: noon. */
export const now = Date.parse('2026-06-01T12:00:00Z')
/** Returns the time this many seconds before `now`. */
export const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString()
export const longAgo = ago(86_400)

type Rest = Readonly<Record<string, unknown>>

/** @param key - `group/Kind` */
export function object(key: string, name: string, rest: Rest = {}, metadata: Rest = {}): KubernetesObject {
  const slash = key.lastIndexOf('/')
  const namespace = clusterKinds.has(key) ? {} : { namespace: 'n' }
  return {
    apiVersion: slash < 0 ? 'v1' : `${key.slice(0, slash)}/${key.startsWith('autoscaling/') ? 'v2' : 'v1'}`,
    kind: key.slice(slash + 1),
    metadata: { name, ...namespace, uid: `uid-${key}-${name}`, creationTimestamp: longAgo, ...metadata },
    ...rest,
  }
}
const clusterKinds: ReadonlySet<string> = new Set([
  'Node',
  'Namespace',
  'storage.k8s.io/StorageClass',
  'PersistentVolume',
  'networking.k8s.io/IngressClass',
  'apiregistration.k8s.io/APIService',
  'apiextensions.k8s.io/CustomResourceDefinition',
  'admissionregistration.k8s.io/ValidatingWebhookConfiguration',
  'admissionregistration.k8s.io/MutatingWebhookConfiguration',
])

export const condition = (type: string, status: string, seconds: number, reason = '', message = '') => ({
  type,
  status,
  reason,
  message,
  lastTransitionTime: ago(seconds),
})

/** Returns the same object with an owner. */
export function ownedBy(owner: KubernetesObject, one: KubernetesObject): KubernetesObject {
  const { uid, name } = owner.metadata as { uid: string; name: string }
  const reference = { apiVersion: owner.apiVersion, kind: owner.kind, name, uid, controller: true }
  return { ...one, metadata: { ...(one.metadata as object), ownerReferences: [reference] } }
}

export function event(of: KubernetesObject, reason: string, message: string, rest: Rest = {}): KubernetesObject {
  const { name, namespace, uid } = of.metadata as Record<string, string>
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: `${name}.${reason}`, namespace, creationTimestamp: ago(60) },
    involvedObject: { apiVersion: of.apiVersion, kind: of.kind, namespace, name, uid },
    type: 'Warning',
    reason,
    message,
    firstTimestamp: ago(300),
    lastTimestamp: ago(30),
    ...rest,
  }
}

interface PodParts {
  readonly name?: string
  readonly phase?: string
  /** seconds since Ready has its status */
  readonly ready?: readonly [status: string, seconds: number]
  readonly conditions?: readonly object[]
  readonly spec?: Rest
  readonly container?: Rest
  readonly init?: readonly Rest[]
  readonly initSpecs?: readonly Rest[]
  readonly containerSpec?: Rest
  readonly status?: Rest
  readonly metadata?: Rest
}

/** Returns a Pod with a node and a container `app`. */
export function pod(parts: PodParts): KubernetesObject {
  const { name = 'pod', phase = 'Running', ready = ['False', 300], container, containerSpec, init, initSpecs } = parts
  const spec = { nodeName: 'node-1', restartPolicy: 'Always', ...parts.spec }
  const containers = [{ name: 'app', image: 'registry.example.com/app:1', ...containerSpec }]
  const conditions = [
    condition('PodScheduled', 'True', ready[1]),
    condition('Ready', ready[0], ready[1]),
    condition('ContainersReady', ready[0], ready[1]),
    ...(parts.conditions ?? []),
  ]
  return object(
    'Pod',
    name,
    {
      spec: { ...spec, containers, ...(initSpecs ? { initContainers: initSpecs } : {}) },
      status: {
        phase,
        conditions,
        ...(container ? { containerStatuses: [{ name: 'app', restartCount: 0, ready: false, ...container }] } : {}),
        ...(init ? { initContainerStatuses: init } : {}),
        ...parts.status,
      },
    },
    { labels: { app: 'a' }, ...parts.metadata },
  )
}

export const waiting = (reason: string, message = '') => ({ state: { waiting: { reason, message } } })
export const running = (seconds: number) => ({ running: { startedAt: ago(seconds) } })
export const ended = (exitCode: number, reason: string, started: number, finished: number, message = '') => ({
  terminated: { exitCode, reason, message, startedAt: ago(started), finishedAt: ago(finished) },
})
export const well = (name = 'pod') =>
  pod({ name, ready: ['True', 3000], container: { ready: true, started: true, state: running(3000) } })

interface View {
  readonly events?: readonly KubernetesObject[]
  readonly without?: readonly string[]
  readonly verdicts?: (object: KubernetesObject) => RuleVerdicts
}

/** @returns verdict and cause of the first object, for one caller */
export function judge(objects: readonly KubernetesObject[], view: View = {}): Judged {
  const { events = [], without = [], verdicts = (one) => ({ argo: argoHealth(one) }) } = view
  const root = objects[0] as KubernetesObject
  const { namespace = '', name } = root.metadata as { namespace?: string; name: string }
  const snapshot = new Snapshot({ now, objects, events, verdicts })
  const judged = judgedFor(snapshot, (kind) => !without.includes(kind), [kindOf(root), namespace, name])
  if (!judged) throw new Error('the root is not there')
  return judged
}

/** `Degraded OOMKilled`, or the verdict alone. */
export function summary(judged: Judged): string {
  return `${judged.verdict}${judged.cause ? ` ${judged.cause.reason}` : ''}`
}

/** A case: the verdict and reason shown for the first object, to a caller who cannot list the kinds of `without`. */
export type Case = readonly [
  what: string,
  expected: string,
  objects: readonly KubernetesObject[],
  events?: readonly KubernetesObject[],
  without?: readonly string[],
]

export function judgeTables(t: Pick<typeof tap, 'test'>, tables: Readonly<Record<string, readonly Case[]>>): void {
  for (const [table, cases] of Object.entries(tables)) {
    for (const [what, expected, objects, events = [], without = []] of cases) {
      t.test(`${table}: ${what}`, async (t) => {
        t.equal(summary(judge(objects, { events, without })), expected)
      })
    }
  }
}

/** A case: the verdict and reason of the first object, and its text. `events` belong to any of the objects. */
export type Report = readonly [
  what: string,
  objects: readonly KubernetesObject[],
  expected: string,
  text: RegExp,
  events?: readonly KubernetesObject[],
  without?: readonly string[],
]

export function judgeAll(t: Pick<typeof tap, 'equal' | 'match'>, reports: readonly Report[]): void {
  for (const [what, objects, expected, text, events = [], without = []] of reports) {
    const judged = judge(objects, { events, without })
    t.equal(summary(judged), expected, what)
    t.match(judged.cause?.text ?? '', text, what)
  }
}

/** Returns the seconds since which the first object is not well. */
export function sinceOf(objects: readonly KubernetesObject[]): number | 'unknown' {
  const time = judge(objects).cause?.since
  return time === undefined ? 'unknown' : (now - time) / 1000
}

export const deployment = (spec: Rest, status: Rest, conditions: readonly object[] = []) =>
  object(
    'apps/Deployment',
    'web',
    { spec: { replicas: 1, ...spec }, status: { observedGeneration: 1, ...status, conditions } },
    { generation: 1 },
  )
export const rolledOut = deployment({}, { replicas: 1, updatedReplicas: 1, availableReplicas: 1 })

/** A case: the verdict and reason shown for a Pod with these events. */
export type PodCase = readonly [
  what: string,
  expected: string,
  pod: KubernetesObject,
  events?: (pod: KubernetesObject) => readonly KubernetesObject[],
]

export function judgePods(t: Pick<typeof tap, 'test'>, cases: readonly PodCase[]): void {
  for (const [what, expected, one, events] of cases) {
    t.test(`a Pod: ${what}`, async (t) => {
      const judged = judge([one], { events: events?.(one) ?? [] })
      t.equal(summary(judged), expected)
      t.not(judged.cause?.text, '', 'has a text')
    })
  }
}

export const says =
  (reason: string, message = `it says ${reason}`) =>
  (one: KubernetesObject) => [event(one, reason, message)]
