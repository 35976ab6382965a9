import type { KubernetesObject } from '../../../src/kubernetes/object.ts'
import type { Seeded } from '../seeded.ts'

/** Objects of a small cluster that name, select and own each other by chance, and fail by chance; with their events. */

export const start = Date.parse('2026-11-20T10:00:00Z')
const namespaces = ['a', 'b'] as const
const iso = (time: number) => new Date(time).toISOString()

export type ClusterStep =
  | { readonly do: 'put'; readonly object: KubernetesObject }
  | { readonly do: 'gone'; readonly object: KubernetesObject }
  | { readonly do: 'event'; readonly event: KubernetesObject }

interface Made {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly labels?: object
  readonly owner?: object | undefined
  readonly deletes?: boolean
  readonly spec?: object
  readonly status?: object
  readonly more?: object
}

function objectOf(random: Seeded, made: Made): KubernetesObject {
  const { apiVersion, kind, namespace = '', name, labels, owner, deletes, spec, status, more } = made
  const metadata = {
    name,
    ...(namespace ? { namespace } : {}),
    // an object that is created again is another one
    uid: `${kind}-${namespace}-${name}-${random.int(2)}`,
    creationTimestamp: iso(start - 600_000),
    generation: 1,
    ...(labels ? { labels } : {}),
    ...(owner ? { ownerReferences: [owner] } : {}),
    ...(deletes ? { deletionTimestamp: iso(start - 400_000), finalizers: ['example.com/wait'] } : {}),
    ...(kind === 'ReplicaSet' ? { annotations: { 'deployment.kubernetes.io/revision': `${random.int(2)}` } } : {}),
  }
  return { apiVersion, kind, metadata, ...(spec ? { spec } : {}), ...(status ? { status } : {}), ...more }
}

const apps = ['one', 'two'] as const

/** @returns an object of one of some 40 places */
function makeObject(random: Seeded): KubernetesObject {
  const namespace = random.pick(namespaces)
  const app = random.pick(apps)
  const template = { metadata: { labels: { app } } }
  const made = (one: Omit<Made, 'namespace'>) => objectOf(random, { namespace, deletes: random.chance(0.05), ...one })
  const global = (one: Made) => objectOf(random, one)
  const owner = (apiVersion: string, kind: string, name: string) => ({
    apiVersion,
    kind,
    name,
    uid: `${kind}-${namespace}-${name}-${random.int(2)}`,
    controller: true,
  })
  switch (random.int(14)) {
    case 0:
      return made({
        apiVersion: 'v1',
        kind: 'Service',
        name: app,
        spec: { type: random.pick(['ClusterIP', 'LoadBalancer']), selector: { app: random.pick(apps) } },
        status: {},
      })
    case 1:
      return made({
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        name: `${app}-x`,
        labels: { 'kubernetes.io/service-name': app },
        owner: random.chance(0.5) ? owner('v1', 'Service', app) : undefined,
        more: { endpoints: random.list(2, () => ({ conditions: { ready: random.chance(0.4) } })) },
      })
    case 2: {
      const replicas = random.int(2)
      return made({ apiVersion: 'apps/v1', kind: 'Deployment', name: app, spec: { replicas, template }, status: {} })
    }
    case 3:
      return made({
        apiVersion: 'apps/v1',
        kind: 'ReplicaSet',
        name: `${app}-${random.int(2)}`,
        owner: owner('apps/v1', 'Deployment', app),
        spec: { replicas: 1, template },
        status: { replicas: 1, availableReplicas: 1 },
      })
    case 4:
      return made({
        apiVersion: 'apps/v1',
        kind: 'StatefulSet',
        name: app,
        spec: { replicas: 2, template },
        status: { replicas: random.int(2), readyReplicas: 2 },
      })
    case 5:
      return made({
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        name: `data-${app}-${random.int(2)}`,
        spec: { storageClassName: random.pick(['fast', 'slow']) },
        status: { phase: random.pick(['Bound', 'Pending', 'Pending']) },
      })
    case 6:
      return global({
        apiVersion: 'storage.k8s.io/v1',
        kind: 'StorageClass',
        name: random.pick(['fast', 'slow']),
        more: { volumeBindingMode: random.pick(['Immediate', 'WaitForFirstConsumer']) },
      })
    case 7: {
      const path = (name: string) => ({ backend: { service: { name } } })
      return made({
        apiVersion: 'networking.k8s.io/v1',
        kind: 'Ingress',
        name: app,
        spec: { rules: [{ http: { paths: [path(random.pick(apps))] } }] },
        status: random.chance(0.5) ? {} : { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
      })
    }
    case 8: {
      const condition = { type: 'ScalingActive', status: 'False', reason: 'FailedGetResourceMetric', message: 'x' }
      const scaleTargetRef = { apiVersion: 'apps/v1', kind: 'Deployment', name: app }
      const metrics = [{ type: 'Resource' }]
      const status = {
        conditions: random.chance(0.6) ? [{ ...condition, lastTransitionTime: iso(start - 300_000) }] : [],
      }
      return made({
        apiVersion: 'autoscaling/v2',
        kind: 'HorizontalPodAutoscaler',
        name: app,
        spec: { scaleTargetRef, metrics },
        status,
      })
    }
    case 9: {
      const service = { namespace, name: random.pick(apps) }
      const webhooks = [{ name: `${app}.example.com`, failurePolicy: 'Fail', clientConfig: { service } }]
      const kind = 'ValidatingWebhookConfiguration'
      return global({ apiVersion: 'admissionregistration.k8s.io/v1', kind, name: app, more: { webhooks } })
    }
    case 10: {
      const status = random.pick(['True', 'False', 'Unknown'])
      const ready = { type: 'Ready', status, message: 'x', lastTransitionTime: iso(start - 500_000) }
      return global({
        apiVersion: 'v1',
        kind: 'Node',
        name: random.pick(['n1', 'n2']),
        status: { conditions: [ready] },
      })
    }
    case 11:
      return made({ apiVersion: 'batch/v1', kind: 'CronJob', name: app, spec: {}, status: {} })
    case 12: {
      const end = { type: random.pick(['Complete', 'Failed']), status: 'True', reason: 'BackoffLimitExceeded' }
      const conditions = random.chance(0.7) ? [{ ...end, lastTransitionTime: iso(start - 100_000) }] : []
      return made({
        apiVersion: 'batch/v1',
        kind: 'Job',
        name: `${app}-${random.int(2)}`,
        owner: owner('batch/v1', 'CronJob', app),
        spec: { template },
        status: { conditions },
      })
    }
    default:
      return made(makePod(random, namespace, app))
  }
}

function makePod(random: Seeded, namespace: string, app: string): Omit<Made, 'namespace'> {
  const isSet = random.chance(0.3)
  const [apiVersion, kind, name] = isSet
    ? ['apps/v1', 'StatefulSet', app]
    : ['apps/v1', 'ReplicaSet', `${app}-${random.int(2)}`]
  const uid = `${kind}-${namespace}-${name}-${random.int(2)}`
  const how = random.pick(['well', 'well', 'crash', 'creating', 'unscheduled', 'lost', 'failed', 'done'] as const)
  const condition = (type: string, status: string, more: object = {}) => ({
    type,
    status,
    lastTransitionTime: iso(start - 300_000),
    ...more,
  })
  const waiting = (reason: string) => [
    { name: 'app', restartCount: how === 'crash' ? 5 : 0, ready: false, state: { waiting: { reason } } },
  ]
  const up = [
    {
      name: 'app',
      restartCount: 0,
      ready: true,
      started: true,
      state: { running: { startedAt: iso(start - 500_000) } },
    },
  ]
  const status = {
    well: { phase: 'Running', conditions: [condition('Ready', 'True')], containerStatuses: up },
    crash: {
      phase: 'Running',
      conditions: [condition('Ready', 'False')],
      containerStatuses: waiting('CrashLoopBackOff'),
    },
    creating: {
      phase: 'Pending',
      conditions: [condition('Ready', 'False')],
      containerStatuses: waiting('ContainerCreating'),
    },
    unscheduled: {
      phase: 'Pending',
      conditions: [condition('PodScheduled', 'False', { reason: 'Unschedulable', message: 'x' })],
    },
    lost: {
      phase: 'Running',
      conditions: [condition('Ready', 'False'), condition('ContainersReady', 'True')],
      containerStatuses: up,
    },
    failed: { phase: 'Failed', reason: 'Evicted' },
    done: { phase: 'Succeeded' },
  }[how]
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: `data-${app}-${random.int(2)}` } }]
  const spec = {
    nodeName: how === 'unscheduled' ? '' : random.pick(['n1', 'n2']),
    volumes,
    containers: [{ name: 'app', image: 'app:1' }],
  }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    name: `${app}-${random.int(4)}`,
    labels: { app: random.pick(apps) },
    owner: { apiVersion, kind, name, uid, controller: true },
    spec,
    status,
  }
}

const reasons = ['FailedMount', 'FailedCreate', 'BackOff', 'Unhealthy', 'ProvisioningFailed', 'SyncLoadBalancerFailed']

function makeEvent(random: Seeded, { apiVersion, kind, metadata }: KubernetesObject): KubernetesObject {
  const { uid, name, namespace = 'default' } = metadata as { uid: string; name: string; namespace?: string }
  const own = namespace === 'default' ? {} : { namespace }
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'x', namespace, uid: `event-${random.int(1_000_000)}` },
    involvedObject: { apiVersion, kind, name, ...own, ...(random.chance(0.9) ? { uid } : {}) },
    type: 'Warning',
    reason: random.pick(reasons),
    message: `message ${random.int(3)}`,
    firstTimestamp: iso(start - 200_000),
    lastTimestamp: iso(start - 1000 * random.int(100)),
  }
}

export function makeSteps(random: Seeded, count: number): ClusterStep[] {
  const there = new Map<string, KubernetesObject>()
  return Array.from({ length: count }, (): ClusterStep => {
    const known = [...there.values()]
    if (known.length > 0 && random.chance(0.15)) {
      const object = random.pick(known)
      there.delete(placeOf(object))
      return { do: 'gone', object }
    }
    if (known.length > 0 && random.chance(0.15)) return { do: 'event', event: makeEvent(random, random.pick(known)) }
    const object = makeObject(random)
    there.set(placeOf(object), object)
    return { do: 'put', object }
  })
}

export function placeOf({ kind, metadata }: KubernetesObject): string {
  const { name, namespace = '' } = metadata as { name: string; namespace?: string }
  return `${kind} ${namespace} ${name}`
}
