import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import {
  ago,
  condition,
  ended,
  event,
  judge,
  judgePods,
  now,
  type PodCase,
  pod,
  running,
  says,
  summary,
  waiting,
} from './world.ts'

/** Rows of the table of Pods, before and after the grace period: containers that crash, or run but are not ready. */

const crashed = (
  restartCount: number,
  exitCode: number,
  reason = 'Error',
  state: object = waiting('CrashLoopBackOff'),
) => pod({ container: { restartCount, lastState: ended(exitCode, reason, 50, 40), ...state } })
const again = { lastState: ended(1, 'Error', 50, 40), ...waiting('CrashLoopBackOff') }
const unready = (readySeconds: number, startedSeconds: number, rest: object = {}) =>
  pod({
    ready: ['False', readySeconds],
    containerSpec: { readinessProbe: { httpGet: {} } },
    container: { started: true, state: running(startedSeconds), ...rest },
  })
const killing = (probe: string) => (one: KubernetesObject) => [
  event(one, 'Killing', `Container app failed ${probe} probe, will be restarted`, { type: 'Normal' }),
]

const cases: readonly PodCase[] = [
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
]
judgePods(t, cases)

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

const backingOff = (one: KubernetesObject, seconds: number) =>
  event(one, 'BackOff', 'Back-off restarting failed container app', { firstTimestamp: ago(seconds) })

t.test('since: at least since the first BackOff, for those who may read events', async (t) => {
  const one = crashed(3, 1)
  const events = [backingOff(one, 900)]
  t.match(judge([one], { events }).cause, { since: undefined, seen: now - 900_000 })
  t.equal(judge([one], { events, without: ['Event'] }).cause?.since, now - 300_000)
  const never = pod({ ready: ['False', 1000], container: { restartCount: 3, ...again } })
  t.match(judge([never], { events }).cause, { since: now - 1_000_000, seen: undefined }, 'it never was ready')
})

t.test('since: of an end that the status has forgotten there is no time', async (t) => {
  // the container ended at an unknown time, and again 40 s ago after it had been ready
  const one = pod({ ready: ['False', 40], container: { restartCount: 1, ...again } })
  t.match(judge([one], { events: [backingOff(one, 38)] }).cause, { since: undefined, seen: now - 40_000 })
  const first = pod({ ready: ['False', 40], container: { restartCount: 0, state: ended(1, 'Error', 50, 40) } })
  t.match(judge([first]).cause, { since: now - 40_000, seen: undefined }, 'the first one is in the status')
})

t.test('since, of what a probe ends again and again: when it did so first', async (t) => {
  const one = crashed(4, 143)
  const killed = (probe: string, firstTimestamp: string) =>
    event(one, 'Killing', `Container app failed ${probe} probe, will be restarted`, {
      type: 'Normal',
      metadata: { name: probe, creationTimestamp: ago(60) },
      firstTimestamp,
    })
  const backOff = event(one, 'BackOff', 'Back-off restarting failed container app', { firstTimestamp: ago(600) })
  const events = [killed('liveness', ago(900)), backOff]
  t.equal(judge([one], { events }).cause?.since, now - 900_000, 'the kubelet backs off later')
  t.equal(judge([one], { events, without: ['Event'] }).cause?.since, now - 300_000)
  const both = [{ ...killed('startup', ago(1200)), lastTimestamp: ago(40) }, ...events]
  t.equal(judge([one], { events: both }).cause?.since, now - 900_000, 'another probe has its own time')
})

t.test('a readiness probe that found no container is no failure of readiness', async (t) => {
  const one = unready(600, 600)
  const events = [event(one, 'Unhealthy', 'Readiness probe errored and resulted in unknown state')]
  t.equal(judge([one], { events }).cause?.text, 'container app: its readiness probe does not succeed')
  const failing = [...events, event(one, 'Unhealthy', 'Readiness probe failed: 503', { metadata: { name: 'b' } })]
  t.equal(judge([one], { events: failing }).cause?.text, 'container app: 503')
})

t.test('the worst container, then the first', async (t) => {
  const one = pod({})
  const states = [
    { name: 'a', ready: false, started: true, state: running(5) },
    { name: 'b', ...waiting('InvalidImageName') },
    { name: 'c', ...waiting('ErrImageNeverPull') },
  ]
  const judged = judge([{ ...one, status: { ...(one.status as object), containerStatuses: states } }])
  t.equal(summary(judged), 'Degraded InvalidImageName')
  t.equal(judged.cause?.about, 'b')
})
