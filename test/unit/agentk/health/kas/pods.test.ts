import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import {
  ago,
  condition,
  ended,
  event,
  judge,
  judgePods,
  object,
  type PodCase,
  pod,
  running,
  says,
  waiting,
  well,
} from './world.ts'

/** Rows of the table of Pods, before and after the grace period: Pods that failed, wait, are being made or end. */

const unscheduled = (seconds: number, reason: string, status: object = {}) =>
  pod({
    phase: 'Pending',
    spec: { nodeName: '' },
    status: { conditions: [condition('PodScheduled', 'False', seconds, reason, 'no node')], ...status },
  })
const waits = (reason: string, seconds: number, message = '') =>
  pod({ phase: 'Pending', ready: ['False', seconds], container: waiting(reason, message) })
const answer = (seconds: number, text: string) =>
  waits('ImagePullBackOff', seconds, `Back-off pulling image "registry.example.com/app:1": ErrImagePull: ${text}`)
const crashed = (
  restartCount: number,
  exitCode: number,
  reason = 'Error',
  state: object = waiting('CrashLoopBackOff'),
) => pod({ container: { restartCount, lastState: ended(exitCode, reason, 50, 40), ...state } })
const failed = (
  status: Readonly<Record<string, unknown>>,
  container: Readonly<Record<string, unknown>> = { state: ended(3, 'Error', 100, 90) },
) => pod({ phase: 'Failed', ready: ['False', 90], spec: { restartPolicy: 'Never' }, container, status })

const cases: readonly PodCase[] = [
  ['is well', 'Healthy', well()],
  ['has ended well', 'Healthy', pod({ phase: 'Succeeded' })],
  ['evicted', 'Degraded Evicted', failed({ reason: 'Evicted', message: 'low on memory' })],
  [
    'preempted',
    'Degraded PreemptionByScheduler',
    failed({ conditions: [condition('DisruptionTarget', 'True', 90, 'PreemptionByScheduler')] }),
  ],
  ['failed for want of memory', 'Degraded OOMKilled', failed({}, { state: ended(137, 'OOMKilled', 100, 90) })],
  ['failed to start', 'Degraded StartError', failed({}, { state: ended(128, 'StartError', 100, 90) })],
  ['failed by its code', 'Degraded NonZeroExit', failed({})],
  ['failed without a word', 'Degraded Failed', failed({}, {})],

  ['no node yet', 'Progressing Unschedulable', unscheduled(119, 'Unschedulable')],
  ['no node', 'Degraded Unschedulable', unscheduled(120, 'Unschedulable')],
  [
    'a node is being made free',
    'Progressing Unschedulable',
    unscheduled(900, 'Unschedulable', { nominatedNodeName: 'node-1' }),
  ],
  ['a node is chosen', 'Progressing NotScheduled', unscheduled(0, '', { conditions: [], nominatedNodeName: 'node-1' })],
  ['gated', 'Progressing SchedulingGated', unscheduled(9000, 'SchedulingGated')],
  [
    'no scheduler',
    'Degraded NotScheduled',
    pod({ phase: 'Pending', spec: { nodeName: '' }, status: { conditions: [] } }),
  ],
  [
    'a scheduler may come',
    'Progressing NotScheduled',
    pod({
      phase: 'Pending',
      spec: { nodeName: '' },
      status: { conditions: [] },
      metadata: { creationTimestamp: ago(5) },
    }),
  ],

  ['denied', 'Degraded ImagePullDenied', answer(1, 'failed to authorize: 403 Forbidden')],
  [
    'denied in words',
    'Degraded ImagePullDenied',
    answer(1, 'pull access denied, repository does not exist or may require authorization'),
  ],
  ['not there', 'Degraded ImageNotFound', answer(1, 'manifest unknown')],
  ['not there by code', 'Degraded ImageNotFound', answer(1, 'unexpected status from HEAD request: 404 Not Found')],
  [
    'registry refuses',
    'Progressing RegistryUnavailable',
    answer(119, 'dial tcp 10.0.0.1:443: connect: connection refused'),
  ],
  ['registry is away', 'Degraded RegistryUnavailable', answer(120, 'unexpected status: 503 Service Unavailable')],
  ['registry is tired', 'Progressing RegistryUnavailable', answer(1, '429 Too Many Requests: not found in your plan')],
  [
    'name of the registry is not resolved',
    'Progressing RegistryUnavailable',
    answer(1, 'dial tcp: lookup registry.example.com: no such host'),
  ],
  [
    'numbers in names are no codes',
    'Degraded ImagePullFailed',
    answer(120, 'failed to extract "x/404:503" from http://10.0.0.1:403/v2: no space left on device'),
  ],
  ['a file of the node is denied', 'Progressing ImagePullFailed', answer(119, 'open /var/lib/x: permission denied')],
  ['any other answer', 'Progressing ImagePullFailed', answer(119, 'short read')],
  [
    'back-off alone',
    'Progressing ImagePullFailed',
    waits('ImagePullBackOff', 1, 'Back-off pulling image "registry.example.com/app:1"'),
  ],
  [
    'back-off alone, and the event of a kubelet before 1.32',
    'Degraded ImageNotFound',
    waits('ImagePullBackOff', 1, 'Back-off pulling image "registry.example.com/app:1"'),
    says('Failed', 'Failed to pull image "registry.example.com/app:1": code = NotFound desc = not found'),
  ],
  [
    'the kubelet says that the registry is away',
    'Degraded RegistryUnavailable',
    waits('RegistryUnavailable', 120, 'no answer'),
  ],
  ...['InvalidImageName', 'ErrImageNeverPull', 'ImageInspectError', 'SignatureValidationFailed'].map(
    (reason): PodCase => [reason, `Degraded ${reason}`, waits(reason, 1)],
  ),
  ...['CreateContainerConfigError', 'CreateContainerError', 'PreStartHookError', 'PostStartHookError'].flatMap(
    (reason): PodCase[] => [
      [`${reason} at first`, `Progressing ${reason}`, waits(reason, 59)],
      [reason, `Degraded ${reason}`, waits(reason, 60)],
    ],
  ),
  [
    'a cache is behind',
    'Progressing CreateContainerConfigError',
    waits('CreateContainerConfigError', 900, 'failed to sync configmap cache: timed out'),
  ],
  ['waits as nobody knows', 'Progressing Somehow', waits('Somehow', 119)],
  ['waits as nobody knows, for long', 'Degraded Somehow', waits('Somehow', 120)],

  ['is being made', 'Progressing ContainerCreating', waits('ContainerCreating', 599)],
  ['is never made', 'Degraded ContainerCreating', waits('ContainerCreating', 600)],
  ['the kubelet has said nothing', 'Degraded ContainerCreating', pod({ phase: 'Pending', ready: ['False', 600] })],
  ...['FailedMount', 'FailedAttachVolume', 'FailedMapVolume', 'FailedCreatePodSandBox', 'NetworkNotReady'].flatMap(
    (reason): PodCase[] => [
      [`${reason} at first`, `Progressing ${reason}`, waits('ContainerCreating', 119), says(reason)],
      [reason, `Degraded ${reason}`, waits('ContainerCreating', 120), says(reason)],
    ],
  ),
  ...['secret', 'configmap'].flatMap((kind): PodCase[] => [
    [
      `a ${kind} that is mounted is missing at first`,
      'Progressing FailedMount',
      waits('ContainerCreating', 59),
      says('FailedMount', `MountVolume.SetUp failed for volume "v" : ${kind} "x" not found`),
    ],
    [
      `a ${kind} that is mounted is missing`,
      'Degraded FailedMount',
      waits('ContainerCreating', 60),
      says('FailedMount', `MountVolume.SetUp failed for volume "v" : ${kind} "x" not found`),
    ],
  ]),
  [
    'an event of two hours ago',
    'Progressing ContainerCreating',
    waits('ContainerCreating', 120),
    (one) => [event(one, 'FailedMount', 'm', { firstTimestamp: ago(9000), lastTimestamp: ago(7200) })],
  ],
  [
    'an event of a Pod of the same name',
    'Progressing ContainerCreating',
    waits('ContainerCreating', 120),
    (one) => [
      {
        ...event(one, 'FailedMount', 'm'),
        involvedObject: { kind: 'Pod', apiVersion: 'v1', namespace: 'n', name: 'pod', uid: 'other' },
      },
    ],
  ],
  [
    'a well Pod has old warnings',
    'Healthy',
    well(),
    (one) => [
      event(one, 'FailedMount', 'm'),
      event(one, 'Unhealthy', 'Readiness probe failed: 503'),
      event(one, 'BackOff', 'Back-off restarting failed container app'),
    ],
  ],

  [
    'an init container takes its time',
    'Progressing Starting',
    pod({
      phase: 'Pending',
      ready: ['False', 9000],
      initSpecs: [{ name: 'i' }],
      init: [{ name: 'i', ready: false, state: running(9000) }],
      container: waiting('PodInitializing'),
    }),
  ],
  [
    'an init container crashes',
    'Degraded CrashLoopBackOff',
    pod({
      phase: 'Pending',
      initSpecs: [{ name: 'i' }],
      init: [{ name: 'i', restartCount: 3, ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 50, 40) }],
      container: waiting('PodInitializing'),
    }),
  ],
  [
    'an init container is done, the next is made',
    'Progressing PodInitializing',
    pod({
      phase: 'Pending',
      ready: ['False', 9000],
      conditions: [condition('Initialized', 'True', 599)],
      initSpecs: [{ name: 'i' }],
      init: [{ name: 'i', ready: true, state: ended(0, 'Completed', 900, 600) }],
      container: waiting('PodInitializing'),
    }),
  ],
  [
    'a sidecar is up',
    'Healthy',
    pod({
      ready: ['True', 60],
      initSpecs: [{ name: 's', restartPolicy: 'Always' }],
      init: [{ name: 's', ready: true, started: true, state: running(90) }],
      container: { ready: true, state: running(60) },
    }),
  ],
  [
    'one container has ended well, the other runs',
    'Progressing',
    pod({
      ready: ['True', 60],
      spec: { restartPolicy: 'OnFailure' },
      container: { ready: true, state: running(60) },
      init: [],
    }),
  ],

  [
    'is ending',
    'Progressing Terminating',
    pod({ metadata: { deletionTimestamp: ago(-10), deletionGracePeriodSeconds: 30 } }),
  ],
  [
    'should have ended',
    'Progressing TerminatingStuck',
    pod({ metadata: { deletionTimestamp: ago(59), deletionGracePeriodSeconds: 30 } }),
  ],
  [
    'does not end',
    'Degraded TerminatingStuck',
    pod({ metadata: { deletionTimestamp: ago(60), deletionGracePeriodSeconds: 30 } }),
  ],
  [
    'held by a finalizer',
    'Degraded DeletionBlocked',
    pod({ metadata: { deletionTimestamp: ago(60), deletionGracePeriodSeconds: 30, finalizers: ['example.com/x'] } }),
  ],
]
judgePods(t, cases)

t.test('text: code, signal, restarts, limit, last words, and no age', async (t) => {
  const killed = pod({
    containerSpec: { resources: { limits: { memory: '64Mi' } } },
    container: { restartCount: 4, ...waiting('CrashLoopBackOff'), lastState: ended(137, 'OOMKilled', 50, 40) },
  })
  t.equal(
    judge([killed]).cause?.text,
    'container app: out of memory (memory limit 64Mi), exit code 137 (OOMKilled), 4 restarts in all',
  )
  t.equal(judge([crashed(1, 143)]).cause?.text, 'container app: exit code 143 (signal 15), 1 restart')
  const words = failed({}, { state: ended(3, 'Error', 100, 90, 'no such table') })
  t.equal(judge([words]).cause?.text, 'container app: exit code 3: no such table')
  const unstarted = pod({ container: { restartCount: 0, ...waiting('RunContainerError', 'no such file') } })
  t.equal(judge([unstarted]).cause?.text, 'container app: RunContainerError: no such file, 0 restarts')
  const unread = failed({}, { state: ended(3, 'Error', 100, 90, 'Error on reading termination message from logs') })
  t.equal(judge([unread]).cause?.text, 'container app: exit code 3')
})

t.test('of what the scheduler says of each node, that which says nothing is left out', async (t) => {
  const said = (message: string) =>
    judge([
      pod({
        phase: 'Pending',
        spec: { nodeName: '' },
        status: { conditions: [condition('PodScheduled', 'False', 300, 'Unschedulable', message)] },
      }),
    ]).cause?.text
  const bare = '0/3 nodes are available: 3 Insufficient memory'
  const preemption = 'preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.'
  t.equal(said(`${bare}. no new claims to deallocate, ${preemption}`), bare)
  t.equal(said(`${bare}. ${preemption}`), bare)
  const telling = `${bare}. preemption: 0/3 nodes are available: 1 No preemption victims found, 2 Preemption is not helpful for scheduling.`
  t.equal(said(telling), telling)
})

t.test('an init container that runs has not ended', async (t) => {
  const one = pod({
    phase: 'Pending',
    initSpecs: [{ name: 'wait-for-db' }],
    init: [{ name: 'wait-for-db', restartCount: 0, ready: false, started: true, state: running(900) }],
    container: waiting('PodInitializing'),
  })
  t.match(judge([one]), {
    verdict: 'Progressing',
    cause: { reason: 'Starting', text: 'init container wait-for-db has not ended', about: 'wait-for-db' },
  })
})

t.test('a pull secret that cannot be read is named behind what the registry answered', async (t) => {
  const unread = (one: KubernetesObject) =>
    event(
      one,
      'FailedToRetrieveImagePullSecret',
      'Unable to retrieve some image pull secrets (reg, other); attempting to pull the image may not succeed.',
    )
  const textOf = (one: KubernetesObject, without: readonly string[] = []) =>
    judge([one], { events: [unread(one)], without }).cause?.text
  const denied = 'container app: image registry.example.com/app:1: 403 Forbidden'
  t.equal(textOf(answer(1, '403 Forbidden')), `${denied}; pull secret reg cannot be read`)
  t.equal(textOf(answer(1, '403 Forbidden'), ['Event']), denied)
  t.notMatch(textOf(answer(1, 'i/o timeout')), /reg /, 'it has nothing to do with a registry that is away')
})

t.test('taints that the scheduler does not name are named by who may list nodes', async (t) => {
  const said = '0/3 nodes are available: 3 node(s) had untolerated taint(s)'
  const one = (tolerations: object[]) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: '', tolerations },
      status: { conditions: [condition('PodScheduled', 'False', 300, 'Unschedulable', said)] },
    })
  const node = (name: string, ...taints: object[]) => object('Node', name, { spec: { taints } })
  const nodes = [
    node('a', { key: 'dedicated', value: 'batch', effect: 'NoSchedule' }, { key: 'soft', effect: 'PreferNoSchedule' }),
    node('b', { key: 'gpu', effect: 'NoExecute' }, { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' }),
    node('c', { key: 'dedicated', value: 'batch', effect: 'NoSchedule' }),
  ]
  const textOf = (tolerations: object[], without: readonly string[] = []) =>
    judge([one(tolerations), ...nodes], { without }).cause?.text
  t.equal(textOf([]), `${said} (dedicated=batch:NoSchedule, gpu:NoExecute)`)
  t.equal(textOf([], ['Node']), said)
  t.equal(textOf([{ key: 'gpu', operator: 'Exists' }]), `${said} (dedicated=batch:NoSchedule)`)
  const other = { key: 'dedicated', value: 'web', effect: 'NoSchedule' }
  t.equal(textOf([other, { key: 'gpu', effect: 'NoExecute' }]), `${said} (dedicated=batch:NoSchedule)`)
  t.equal(textOf([{ operator: 'Exists' }]), said)
})

t.test('a Pod that asks for labels of its node: which, and what keeps it from the nodes that have them', async (t) => {
  const unselected = "1 node(s) didn't match Pod's node affinity/selector"
  const one = (said: string, nodeSelector: object) =>
    pod({
      phase: 'Pending',
      spec: { nodeName: '', nodeSelector },
      status: { conditions: [condition('PodScheduled', 'False', 300, 'Unschedulable', said)] },
    })
  const node = (name: string, pool: string) =>
    object('Node', name, { spec: { taints: [{ key: pool, effect: 'NoSchedule' }] } }, { labels: { pool } })
  const nodes = [node('a', 'batch'), node('b', 'ingest')]
  const textOf = (said: string, nodeSelector: object, without: readonly string[] = []) =>
    judge([one(said, nodeSelector), ...nodes], { without }).cause?.text
  const both = `${unselected}, 2 node(s) had untolerated taint(s)`
  const batch = { pool: 'batch' }
  t.equal(
    textOf(both, batch),
    `${unselected} (pool=batch), 2 node(s) had untolerated taint(s) (where pool=batch: batch:NoSchedule)`,
  )
  t.equal(
    textOf(both, batch, ['Node']),
    `${unselected} (pool=batch), 2 node(s) had untolerated taint(s)`,
    'what it asks for it says itself',
  )
  t.equal(textOf(unselected, { pool: 'gpu' }), `${unselected} (no node has pool=gpu)`)
  t.equal(textOf(unselected, { pool: 'gpu' }, ['Node']), `${unselected} (pool=gpu)`)
  t.equal(textOf(unselected, {}), unselected, 'by its affinity')
  const many = Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`l${i}`, 'x']))
  t.equal(textOf(unselected, many), unselected, 'of so many nothing is said')
})
