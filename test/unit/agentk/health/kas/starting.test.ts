import t from 'tap'
import {
  ago,
  condition,
  event,
  judge,
  judgeAll,
  object,
  ownedBy,
  pod,
  running,
  summary,
  waiting,
  well,
} from './world.ts'

/** Pods that do not start, and nodes that accept no Pods. */

const node = (name: string, conditions: readonly object[], spec: object = {}, metadata: object = {}) =>
  object('Node', name, { spec, status: { conditions } }, metadata as Record<string, unknown>)
const ready = condition('Ready', 'True', 9000)
const unscheduled = (message: string, spec: object = {}) =>
  pod({
    phase: 'Pending',
    spec: { nodeName: '', ...spec },
    status: { conditions: [condition('PodScheduled', 'False', 900, 'Unschedulable', message)] },
  })

t.test('of what the scheduler says of preemption, that which says nothing is left out', async (t) => {
  const said = (message: string) => judge([unscheduled(message)]).cause?.text
  const bare = '0/2 nodes are available: 1 cannot allocate all claims, 1 Insufficient cpu'
  const tail = 'preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.'
  t.equal(said(`${bare}. still not schedulable, ${tail}`), bare)
  t.equal(said(`${bare}. preemption: not eligible due to preemptionPolicy=Never.`), bare)
  t.equal(said(`${bare}. preemption: not eligible due to a terminating pod on the nominated node.`), bare)
})

t.test('where no node is left but those that are not well, they are why', async (t) => {
  const taint = (key: string) => ({ taints: [{ key, effect: 'NoSchedule' }] })
  const away = node('node-1', [condition('Ready', 'Unknown', 900, 'NodeStatusUnknown', 'Kubelet stopped posting')])
  const pressed = node('node-1', [ready, condition('DiskPressure', 'True', 900, '', 'kubelet has disk pressure')])
  const untolerated = (key: string) => `1 node(s) had untolerated taint {${key}: }`
  const control = untolerated('node-role.kubernetes.io/control-plane')
  const unreachable = untolerated('node.kubernetes.io/unreachable')
  const of = (nodes: number, ...reasons: string[]) =>
    unscheduled(`0/${nodes} nodes are available: ${reasons.join(', ')}.`)
  const culprit = (...objects: Parameters<typeof judge>[0][number][]) => {
    const { cause } = judge(objects)
    return `${cause?.kind} ${cause?.reason}`
  }
  t.equal(culprit(of(1, unreachable), away), 'Node NodeUnreachable')
  t.equal(culprit(of(2, control, unreachable), away, node('node-0', [ready])), 'Node NodeUnreachable')
  t.equal(culprit(of(1, untolerated('node.kubernetes.io/disk-pressure')), pressed), 'Node DiskPressure')
  t.equal(culprit(of(2, '1 Insufficient cpu', unreachable), away), 'Pod Unschedulable', 'others are full')
  t.equal(culprit(of(1, unreachable)), 'Pod Unschedulable', 'nobody knows of the node')
  t.equal(culprit(of(1, untolerated('dedicated')), away), 'Pod Unschedulable')
  const nameless = unscheduled('0/1 nodes are available: 1 node(s) had untolerated taint(s).')
  const named = node('node-1', [condition('Ready', 'Unknown', 900)], taint('node.kubernetes.io/unreachable'))
  t.equal(culprit(nameless, named), 'Node NodeUnreachable', 'from Kubernetes 1.35 on')
  t.match(judge([of(1, unreachable), away], { without: ['Node'] }).cause, { kind: 'Pod', reason: 'Unschedulable' })
})

t.test('a volume is for nodes of which there is none', async (t) => {
  const claim = object('PersistentVolumeClaim', 'c', { spec: { volumeName: 'pv' }, status: { phase: 'Bound' } })
  const key = 'topology.kubernetes.io/zone'
  const volume = (values: readonly unknown[]) =>
    object('PersistentVolume', 'pv', {
      spec: {
        claimRef: { namespace: 'n', name: 'c', uid: 'uid-PersistentVolumeClaim-c' },
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [{ key, operator: 'In', values }] }] } },
      },
      status: { phase: 'Bound' },
    })
  const one = unscheduled('0/1 nodes are available: 1 node(s) had volume node affinity conflict.', {
    volumes: [{ name: 'd', persistentVolumeClaim: { claimName: 'c' } }],
  })
  const other = node('node-1', [ready], {}, { labels: { [key]: 'eu-1b' } })
  const bare = /conflict\.$/
  judgeAll(t, [
    [
      'of another zone',
      [one, claim, volume(['eu-1a', 'eu-1c']), other],
      'Degraded Unschedulable',
      /; volume pv is for nodes with topology\.kubernetes\.io\/zone=eu-1a, topology\.kubernetes\.io\/zone=eu-1c, and there is none$/,
    ],
    ['of the same', [one, claim, volume(['eu-1a', 'eu-1b']), other], 'Degraded Unschedulable', bare],
    [
      'of more zones than are read',
      [one, claim, volume([...Array(16).keys()].map((i) => `z${i}`).concat('eu-1b')), other],
      'Degraded Unschedulable',
      bare,
    ],
    ['hidden', [one, claim, volume(['eu-1a']), other], 'Degraded Unschedulable', bare, [], ['Node']],
    ['hostile', [one, claim, volume([1, null, {}]), other], 'Degraded Unschedulable', bare],
  ])
})

t.test('a Pod names a node that does not exist', async (t) => {
  const one = (seconds: number, more: object = {}) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: 'node-99' },
      status: { conditions: [], ...more },
      metadata: { creationTimestamp: ago(seconds) },
    })
  const there = node('node-1', [ready])
  judgeAll(t, [
    ['it waits', [one(45), there], 'Degraded NodeMissing', /^node node-99 does not exist$/],
    ['just made', [one(9), there], 'Progressing NodeMissing', /^node node-99 does not exist$/],
    ['hidden', [one(45), there], 'Progressing ContainerCreating', /has not begun$/, [], ['Node']],
    ['nobody knows of nodes', [one(45)], 'Progressing ContainerCreating', /has not begun$/],
    ['it was there', [one(45, { startTime: ago(40) }), there], 'Progressing ContainerCreating', /has not begun$/],
  ])
})

t.test('a node that its cloud provider has not initialized takes no Pods', async (t) => {
  const taints = [{ key: 'node.cloudprovider.kubernetes.io/uninitialized', value: 'true', effect: 'NoSchedule' }]
  const made = (seconds: number) => node('node-1', [ready], { taints }, { creationTimestamp: ago(seconds) })
  judgeAll(t, [
    ['for long', [made(300)], 'Degraded Uninitialized', /^node node-1 takes no Pods: its cloud provider has not/],
    ['new', [made(299)], 'Progressing Uninitialized', /cloud provider/],
    [
      'tainted by a person',
      [node('node-1', [ready], { taints: [{ key: 'gpu', effect: 'NoSchedule' }] })],
      'Healthy',
      /^$/,
    ],
  ])
})

t.test('probes that fail, and those that cannot be asked', async (t) => {
  const one = (container: object, containerSpec: object = {}) =>
    pod({
      ready: ['False', 900],
      containerSpec: containerSpec as Record<string, unknown>,
      container: { ready: false, state: running(900), ...container },
    })
  const starts = one({ started: false })
  const runs = one({ started: true }, { readinessProbe: {} })
  const unhealthy = (of: typeof starts, message: string) => [event(of, 'Unhealthy', message)]
  const atoi = 'strconv.Atoi: parsing "http": invalid syntax'
  judgeAll(t, [
    [
      'a start that takes long',
      [starts],
      'Progressing Starting',
      /^container app has started, and is not ready yet: Startup probe failed: connection refused$/,
      unhealthy(starts, 'Startup probe failed: connection refused'),
    ],
    [
      'a port without a name',
      [starts],
      'Degraded StartupProbeFailed',
      /Startup probe errored and resulted in unknown state: strconv/,
      unhealthy(starts, `Startup probe errored and resulted in unknown state: ${atoi}`),
    ],
    [
      'of readiness',
      [runs],
      'Degraded ReadinessProbeFailed',
      /^container app: strconv\.Atoi: parsing "http": invalid syntax$/,
      unhealthy(runs, `Readiness probe errored: ${atoi}`),
    ],
    [
      'the container was stopping',
      [runs],
      'Degraded ReadinessProbeFailed',
      /^container app: its readiness probe does not succeed$/,
      unhealthy(runs, 'Readiness probe errored: rpc error: cannot register an exec PID: container is stopping'),
    ],
  ])
  const { cause } = judge([starts], { events: unhealthy(starts, 'Startup probe failed: connection refused') })
  t.equal(cause?.about, 'app')
})

t.test('that volumes do not come is said by who fails to bring them', async (t) => {
  const one = pod({
    phase: 'Pending',
    container: waiting('ContainerCreating'),
    metadata: { creationTimestamp: ago(300) },
  })
  const vague =
    'Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out waiting for the condition'
  const late = event(one, 'FailedMount', vague, { lastTimestamp: ago(5) })
  const exact = event(one, 'FailedAttachVolume', 'AttachVolume.Attach failed for volume "pvc-1" : in use')
  judgeAll(t, [
    ['before it', [one], 'Degraded FailedAttachVolume', /^AttachVolume\.Attach failed/, [exact, late]],
    ['alone', [one], 'Degraded FailedMount', /^Unable to attach or mount volumes/, [late]],
  ])
})

t.test('a StatefulSet whose Pods a kubelet refuses by whatever reason', async (t) => {
  const set = object('apps/StatefulSet', 'db', { spec: { replicas: 1 }, status: { replicas: 1 } })
  const refused = (reason: string) =>
    [100, 70, 40].map((seconds, i) => {
      const one = event(pod({ name: 'db-0', metadata: { uid: `uid-${i}` } }), reason, `it says ${reason}`)
      const times = { firstTimestamp: ago(seconds), lastTimestamp: ago(seconds) }
      return { ...one, ...times, metadata: { name: `e${i}`, namespace: 'n', creationTimestamp: ago(seconds) } }
    })
  const now = ownedBy(set, pod({ name: 'db-0', phase: 'Pending', metadata: { creationTimestamp: ago(5) } }))
  for (const reason of ['SysctlForbidden', 'AppArmor', 'PodOSNotSupported', 'OutOfnvidia.com/gpu', 'NodeName']) {
    t.equal(summary(judge([set, now], { events: refused(reason) })), `Degraded ${reason}`)
  }
  t.not(summary(judge([set, now], { events: refused('Pulled') })), 'Degraded Pulled')
})

t.test('Pods that are ready, and nobody makes the EndpointSlices of their Service', async (t) => {
  const service = object('Service', 'web', {
    spec: { type: 'ClusterIP', clusterIP: '10.0.0.1', selector: { app: 'a' }, ports: [{ port: 80 }] },
  })
  judgeAll(t, [
    [
      'at first',
      [service, well()],
      'Progressing NoReadyEndpoints',
      /^its Pod is ready, and no EndpointSlice lists it$/,
    ],
    ['two', [service, well(), well('b')], 'Progressing NoReadyEndpoints', /^its 2 Pods are ready, and no Endpoint/],
    [
      'a slice that is behind',
      [
        service,
        well(),
        object(
          'discovery.k8s.io/EndpointSlice',
          'web-x',
          { endpoints: [{ conditions: { ready: false } }] },
          { labels: { 'kubernetes.io/service-name': 'web' } },
        ),
      ],
      'Progressing NoReadyEndpoints',
      /^none of one Pod is ready$/,
    ],
    ['a Pod that is not', [service, pod({})], 'Progressing ContainerCreating', /^the kubelet has not begun$/],
  ])
})
