import t from 'tap'
import type { KubernetesObject } from '../../../../../src/agentk/health/object.ts'
import { ago, condition, ended, event, judge, now, pod, running, said, waiting, well } from './world.ts'

/** A line of the table of Pods each, both sides of its grace. */

type Case = readonly [
  what: string,
  expected: string,
  pod: KubernetesObject,
  events?: (pod: KubernetesObject) => object[],
]

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
const unready = (readySeconds: number, startedSeconds: number, rest: object = {}) =>
  pod({
    ready: ['False', readySeconds],
    containerSpec: { readinessProbe: { httpGet: {} } },
    container: { started: true, state: running(startedSeconds), ...rest },
  })
const failed = (
  status: Readonly<Record<string, unknown>>,
  container: Readonly<Record<string, unknown>> = { state: ended(3, 'Error', 100, 90) },
) => pod({ phase: 'Failed', ready: ['False', 90], spec: { restartPolicy: 'Never' }, container, status })
const killing = (probe: string) => (one: KubernetesObject) => [
  event(one, 'Killing', `Container app failed ${probe} probe, will be restarted`, { type: 'Normal' }),
]
const says =
  (reason: string, message = `it says ${reason}`) =>
  (one: KubernetesObject) => [event(one, reason, message)]

const cases: readonly Case[] = [
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
    (reason): Case => [reason, `Degraded ${reason}`, waits(reason, 1)],
  ),
  ...['CreateContainerConfigError', 'CreateContainerError', 'PreStartHookError', 'PostStartHookError'].flatMap(
    (reason): Case[] => [
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

  ['second restart', 'Progressing CrashLoopBackOff', crashed(2, 1)],
  ['third restart', 'Degraded CrashLoopBackOff', crashed(3, 1)],
  ['out of memory', 'Degraded OOMKilled', crashed(3, 137, 'OOMKilled')],
  ['does not start', 'Degraded StartError', crashed(3, 128, 'ContainerCannotRun')],
  [
    'does not start, first time',
    'Progressing StartError',
    pod({ container: { restartCount: 0, ...waiting('RunContainerError', 'no such file') } }),
  ],
  [
    'has ended, and is to restart',
    'Degraded CrashLoopBackOff',
    crashed(3, 1, 'Error', { state: ended(1, 'Error', 10, 5) }),
  ],
  ['is made again after a crash', 'Degraded CrashLoopBackOff', crashed(3, 1, 'Error', waiting('ContainerCreating'))],
  ['hook fails', 'Degraded PostStartHookError', crashed(3, 137), says('FailedPostStartHook')],
  [
    'killed by its liveness probe, ends well',
    'Degraded LivenessProbeFailed',
    crashed(3, 0, 'Completed'),
    killing('liveness'),
  ],
  ['killed by its startup probe', 'Degraded StartupProbeFailed', crashed(3, 137), killing('startup')],
  [
    'a probe is said to fail, and it was killed',
    'Degraded LivenessProbeFailed',
    crashed(3, 143),
    says('Unhealthy', 'Liveness probe failed: 500'),
  ],
  [
    'a probe is said to fail, and it ended by itself',
    'Degraded CrashLoopBackOff',
    crashed(3, 1),
    says('Unhealthy', 'Liveness probe failed: 500'),
  ],
  [
    'a container is stopped',
    'Degraded CrashLoopBackOff',
    crashed(3, 137),
    (one) => [event(one, 'Killing', 'Stopping container app', { type: 'Normal' })],
  ],
  [
    'runs between two crashes',
    'Degraded CrashLoopBackOff',
    pod({
      ready: ['True', 5],
      container: { ready: true, restartCount: 3, state: running(9), lastState: ended(1, 'Error', 50, 48) },
    }),
  ],
  [
    'runs for longer than its lives',
    'Healthy',
    pod({
      ready: ['True', 10],
      container: { ready: true, restartCount: 3, state: running(11), lastState: ended(1, 'Error', 50, 48) },
    }),
  ],
  [
    'its last life was long',
    'Healthy',
    pod({
      ready: ['True', 5],
      container: { ready: true, restartCount: 9, state: running(9), lastState: ended(1, 'Error', 700, 20) },
    }),
  ],
  [
    'its first restart',
    'Healthy',
    pod({
      ready: ['True', 5],
      container: { ready: true, restartCount: 1, state: running(9), lastState: ended(1, 'Error', 50, 20) },
    }),
  ],

  ['is being made', 'Progressing ContainerCreating', waits('ContainerCreating', 599)],
  ['is never made', 'Degraded ContainerCreating', waits('ContainerCreating', 600)],
  ['the kubelet has said nothing', 'Degraded ContainerCreating', pod({ phase: 'Pending', ready: ['False', 600] })],
  ...['FailedMount', 'FailedAttachVolume', 'FailedMapVolume', 'FailedCreatePodSandBox', 'NetworkNotReady'].flatMap(
    (reason): Case[] => [
      [`${reason} at first`, `Progressing ${reason}`, waits('ContainerCreating', 119), says(reason)],
      [reason, `Degraded ${reason}`, waits('ContainerCreating', 120), says(reason)],
    ],
  ),
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
    'starts slowly',
    'Progressing Starting',
    pod({
      ready: ['False', 9000],
      containerSpec: { startupProbe: {}, readinessProbe: {} },
      container: { started: false, state: running(9000) },
    }),
  ],
  [
    'not ready without a probe',
    'Progressing Starting',
    pod({ ready: ['False', 9000], container: { started: true, state: running(9000) } }),
  ],
  ['not ready yet', 'Progressing ReadinessProbeFailed', unready(599, 599)],
  ['never ready', 'Degraded ReadinessProbeFailed', unready(600, 600)],
  ['ready no more', 'Progressing ReadinessProbeFailed', unready(119, 3000)],
  ['ready no more for long', 'Degraded ReadinessProbeFailed', unready(120, 3000)],
  ['runs only now', 'Progressing ReadinessProbeFailed', unready(3000, 30)],
  [
    'gates are closed',
    'Progressing ReadinessGatesNotReady',
    pod({
      spec: { readinessGates: [{ conditionType: 'lb' }] },
      status: { conditions: [condition('Ready', 'False', 599), condition('ContainersReady', 'True', 900)] },
      container: { ready: true, state: running(900) },
    }),
  ],
  [
    'gates stay closed',
    'Degraded ReadinessGatesNotReady',
    pod({
      status: {
        conditions: [
          condition('Ready', 'False', 600, 'ReadinessGatesNotReady'),
          condition('ContainersReady', 'True', 900),
        ],
      },
      container: { ready: true, state: running(900) },
    }),
  ],
  [
    'its node is lost',
    'Degraded NodeNotReady',
    pod({
      status: { conditions: [condition('Ready', 'False', 1), condition('ContainersReady', 'True', 900)] },
      container: { ready: true, state: running(900) },
    }),
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

for (const [what, expected, one, events] of cases) {
  t.test(`a Pod: ${what}`, async (t) => {
    const judged = judge([one], { events: (events?.(one) ?? []) as KubernetesObject[] })
    t.equal(said(judged), expected)
    t.ok((judged.cause?.text ?? 'x') !== '', 'has a text')
  })
}

t.test('a crash after a long life is no row of crashes, however many there were', async (t) => {
  const once = ended(1, 'Error', 90_000, 5)
  t.equal(judge([pod({ container: { restartCount: 9, state: once } })]).verdict, 'Progressing')
  t.equal(
    judge([pod({ container: { restartCount: 9, ...waiting('ContainerCreating'), lastState: once } })]).verdict,
    'Progressing',
  )
  t.equal(
    judge([pod({ container: { restartCount: 9, ...waiting('CrashLoopBackOff'), lastState: once } })]).verdict,
    'Degraded',
  )
})

t.test('what events say of one container is not said of another', async (t) => {
  const one = crashed(3, 137)
  const of = (message: string, fieldPath = '') => {
    const { involvedObject, ...rest } = event(one, 'Killing', message, { type: 'Normal' }) as { involvedObject: object }
    return [{ ...rest, involvedObject: { ...involvedObject, fieldPath } }]
  }
  const reason = (events: readonly KubernetesObject[]) => judge([one], { events }).cause?.reason
  t.equal(reason(of('Container app failed liveness probe, will be restarted')), 'LivenessProbeFailed')
  t.equal(reason(of('Container ap failed liveness probe, will be restarted')), 'CrashLoopBackOff')
  t.equal(reason(of('failed liveness probe', 'spec.containers{app}')), 'LivenessProbeFailed')
  t.equal(reason(of('failed liveness probe', 'spec.containers{other}')), 'CrashLoopBackOff')
})

t.test('a crash is one finding, whichever of its states is met', async (t) => {
  const states = [waiting('CrashLoopBackOff'), { state: ended(1, 'Error', 50, 40) }, waiting('ContainerCreating')]
  const since = states.map((state) => judge([crashed(3, 1, 'Error', state)]).cause?.since)
  t.same(since, [now - 300_000, now - 300_000, now - 300_000])
})

t.test('since: the earliest of what is known, the first BackOff for those who may read events', async (t) => {
  const one = crashed(3, 1)
  const events = [event(one, 'BackOff', 'Back-off restarting failed container app', { firstTimestamp: ago(900) })]
  t.equal(judge([one], { events }).cause?.since, now - 900_000)
  t.equal(judge([one], { events, without: ['Event'] }).cause?.since, now - 300_000)
})

t.test('text: code, signal, restarts, limit, last words, and no age', async (t) => {
  const killed = pod({
    containerSpec: { resources: { limits: { memory: '64Mi' } } },
    container: { restartCount: 4, ...waiting('CrashLoopBackOff'), lastState: ended(137, 'OOMKilled', 50, 40) },
  })
  t.equal(judge([killed]).cause?.text, 'container app: exit code 137 (OOMKilled), 4 restarts, limit 64Mi')
  t.equal(judge([crashed(1, 143)]).cause?.text, 'container app: exit code 143 (signal 15), 1 restart')
  const words = failed({}, { state: ended(3, 'Error', 100, 90, 'no such table') })
  t.equal(judge([words]).cause?.text, 'container app: exit code 3: no such table')
  const unread = failed({}, { state: ended(3, 'Error', 100, 90, 'Error on reading termination message from logs') })
  t.equal(judge([unread]).cause?.text, 'container app: exit code 3')
})

t.test('a readiness probe that found no container is no failure of readiness', async (t) => {
  const one = unready(600, 600)
  const events = [event(one, 'Unhealthy', 'Readiness probe errored and resulted in unknown state')]
  t.equal(judge([one], { events }).cause?.text, 'container app: its readiness probe does not succeed')
  const failing = [...events, event(one, 'Unhealthy', 'Readiness probe failed: 503', { metadata: { name: 'b' } })]
  t.equal(judge([one], { events: failing }).cause?.text, 'container app: Readiness probe failed: 503')
})

t.test('the worst container, then the first', async (t) => {
  const one = pod({})
  const states = [
    { name: 'a', ready: false, started: true, state: running(5) },
    { name: 'b', ...waiting('InvalidImageName') },
    { name: 'c', ...waiting('ErrImageNeverPull') },
  ]
  const judged = judge([{ ...one, status: { ...(one.status as object), containerStatuses: states } }])
  t.equal(said(judged), 'Degraded InvalidImageName')
  t.equal(judged.cause?.about, 'b')
})
