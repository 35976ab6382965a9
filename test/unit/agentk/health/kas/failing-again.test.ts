import t from 'tap'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { ago, condition, ended, event, judge, judgeTables, object, ownedBy, pod, well } from './world.ts'

/** Pods that fail for good and are made again, for each kind that makes Pods. Next to them: failures that pass. */

const daemonSet = (numberReady = 2) =>
  object(
    'apps/DaemonSet',
    'd',
    {
      spec: { updateStrategy: { type: 'RollingUpdate' } },
      status: {
        observedGeneration: 1,
        desiredNumberScheduled: 2,
        currentNumberScheduled: 2,
        updatedNumberScheduled: 2,
        numberReady,
        numberAvailable: numberReady,
      },
    },
    { generation: 1 },
  )
const statefulSetOf = (readyReplicas: number) =>
  object(
    'apps/StatefulSet',
    's',
    {
      spec: { replicas: 3, updateStrategy: { type: 'RollingUpdate' } },
      status: { observedGeneration: 1, replicas: 3, readyReplicas, currentReplicas: 3, availableReplicas: 3 },
    },
    { generation: 1 },
  )
const statefulSet = statefulSetOf(3)
const controller = object('ReplicationController', 'c', { spec: { replicas: 1 }, status: { replicas: 1 } })
const job = (status: object = {}) =>
  object('batch/Job', 'j', { spec: { parallelism: 1 }, status: { startTime: ago(900), ...status } })

const failed = (owner: KubernetesObject, name: string, seconds: number, reason = 'Evicted', nodeName = 'node-1') =>
  ownedBy(
    owner,
    pod({
      name,
      phase: 'Failed',
      spec: { nodeName },
      status: { reason, message: `it says ${reason}` },
      metadata: { creationTimestamp: ago(seconds), uid: `${name}-${seconds}` },
    }),
  )
const row = (
  owner: KubernetesObject,
  nameOf: (i: number) => string,
  reason?: string,
  nodeOf = (_: number) => 'node-1',
) => [300, 200, 100].map((seconds, i) => failed(owner, nameOf(i), seconds, reason, nodeOf(i)))

const killed = (node: string, seconds: number, set = daemonSet()) =>
  event(set, 'FailedDaemonPod', `Found failed daemon pod n/d-${seconds} on node ${node}, will try to kill it`, {
    metadata: { name: `d.${seconds}`, namespace: 'n', uid: `e-${seconds}` },
    firstTimestamp: ago(seconds),
    lastTimestamp: ago(seconds),
  })
const before = (seconds: number, reason = 'Evicted', name = 's-1') => {
  const uid = `${name}-${seconds}`
  const times = { firstTimestamp: ago(seconds), lastTimestamp: ago(seconds) }
  return {
    ...event(pod({ name, metadata: { uid } }), reason, `it says ${reason}`, times),
    metadata: { name: uid, namespace: 'n', uid },
  }
}
const evicted = [900, 500, 100].map((one) => before(one))
const up = ownedBy(statefulSet, well('s-1'))
const recreating = (count: number) =>
  event(statefulSet, 'RecreatingFailedPod', 'StatefulSet n/s is recreating failed Pod s-1', { count })

judgeTables(t, {
  'a DaemonSet': [
    ['one node evicts', 'Degraded Evicted', [daemonSet(), ...row(daemonSet(), (i) => `d-${i}`)]],
    [
      'one node refuses',
      'Degraded UnexpectedAdmissionError',
      [daemonSet(), ...row(daemonSet(), (i) => `d-${i}`, 'UnexpectedAdmissionError')],
    ],
    [
      'each node once',
      'Healthy',
      [
        daemonSet(),
        ...row(
          daemonSet(),
          (i) => `d-${i}`,
          'Evicted',
          (i) => `node-${i}`,
        ),
      ],
    ],
    ['its node is shut down', 'Healthy', [daemonSet(), ...row(daemonSet(), (i) => `d-${i}`, 'NodeShutdown')]],
    ['replaced once, by a drain', 'Healthy', [daemonSet(), failed(daemonSet(), 'd-1', 60)], [killed('node-1', 50)]],
    ['Pods are hidden', 'Healthy', [daemonSet(), ...row(daemonSet(), (i) => `d-${i}`)], [], ['Pod']],
    [
      'deleted again and again',
      'Degraded FailedDaemonPod',
      [daemonSet(1)],
      [90, 60, 30].map((one) => killed('node-1', one)),
    ],
    [
      'of several nodes',
      'Progressing LessAvailable',
      [daemonSet(1)],
      [90, 60, 30].map((one) => killed(`node-${one}`, one)),
    ],
    ['all are ready since', 'Healthy', [daemonSet()], [90, 60, 30].map((one) => killed('node-1', one))],
    [
      'events are hidden',
      'Progressing LessAvailable',
      [daemonSet(1)],
      [90, 60, 30].map((one) => killed('node-1', one)),
      ['Event'],
    ],
    [
      'deleted again and again, the last one is there',
      'Degraded OutOfcpu',
      [daemonSet(1), failed(daemonSet(), 'd-9', 20, 'OutOfcpu')],
      [90, 60, 30].map((one) => killed('node-1', one)),
    ],
  ],
  'a StatefulSet': [
    ['one of its Pods', 'Degraded NodeAffinity', [statefulSet, ...row(statefulSet, () => 's-1', 'NodeAffinity')]],
    ['recreated again and again', 'Degraded RecreatingFailedPod', [statefulSetOf(2)], [recreating(5)]],
    ['one of its Pods, by events of those before', 'Degraded Evicted', [statefulSet, up], evicted],
    ['these are hidden', 'Healthy', [statefulSet, up], evicted, ['Event']],
    ['twice, by events', 'Healthy', [statefulSet, up], evicted.slice(1)],
    ['another Pod', 'Healthy', [statefulSet, up], [900, 500, 100].map((one) => before(one, 'Evicted', 's-2'))],
    ['long ago', 'Healthy', [statefulSet, up], [3500, 3000, 2500].map((one) => before(one))],
    ['other events', 'Healthy', [statefulSet, up], [900, 500, 100].map((one) => before(one, 'FailedMount'))],
    ['recreated once', 'Progressing LessReady', [statefulSetOf(2)], [recreating(1)]],
    ['all are ready since', 'Healthy', [statefulSet], [recreating(5)]],
  ],
  'a ReplicationController': [['evicted', 'Degraded Evicted', [controller, ...row(controller, (i) => `c-${i}`)]]],
  'a Job': [
    ['without any success', 'Degraded OutOfmemory', [job(), ...row(job(), (i) => `j-${i}`, 'OutOfmemory')]],
    ['it gets on', 'Progressing Evicted', [job({ succeeded: 5 }), ...row(job(), (i) => `j-${i}`)]],
    ['its nodes are shut down', 'Progressing Terminated', [job(), ...row(job(), (i) => `j-${i}`, 'Terminated')]],
    ['tries that failed by themselves', 'Progressing NonZeroExit', [job(), ...[300, 200, 100].map(tried)]],
  ],
})

function tried(seconds: number) {
  const container = { state: ended(4, 'Error', seconds, seconds - 10) }
  return ownedBy(
    job(),
    pod({ name: `j-${seconds}`, phase: 'Failed', container, metadata: { creationTimestamp: ago(seconds) } }),
  )
}

t.test('what they say: how many, which, and why', async (t) => {
  const { cause } = judge([daemonSet(), ...row(daemonSet(), (i) => `d-${i}`)])
  t.match(cause, { kind: 'apps/DaemonSet', count: 3, text: '3 Pods one after the other, e.g. d-2: it says Evicted' })
  const { cause: ofEvents } = judge([daemonSet(1)], { events: [90, 60, 30].map((one) => killed('node-1', one)) })
  t.match(ofEvents, { count: 3, text: /^3 Pods one after the other: Found failed daemon pod n\/d-30 on node node-1/ })
  const once = judge([statefulSet, ...row(statefulSet, (i) => `s-${i}`)])
  t.match(once.cause, { kind: 'Pod', text: 'it says Evicted' }, 'each of its Pods once')
  const parent = judge([daemonSet(), ownedBy(daemonSet(), well('d-1'))])
  t.equal(parent.verdict, 'Healthy')
  const done = job({ conditions: [condition('Failed', 'True', 10, 'BackoffLimitExceeded', 'has reached the limit')] })
  t.equal(judge([done, tried(100)]).cause?.reason, 'NonZeroExit', 'its Pod is there')
  t.equal(judge([done]).cause?.reason, 'BackoffLimitExceeded')
})
