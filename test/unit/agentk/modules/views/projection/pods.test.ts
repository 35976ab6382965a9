import t from 'tap'
import { projectionOf } from '../../../../../../src/agentk/modules/views/projection/projection.ts'

const facts = (spec: unknown, status: unknown) => projectionOf('Pod', { spec, status }).facts
const container = (more: object = {}) => ({ name: 'main', ready: true, restartCount: 0, ...more })
const waiting = (reason: string) => ({ ready: false, state: { waiting: { reason } } })

t.test('phase, ready containers, restarts and node', async (t) => {
  t.same(facts({ nodeName: 'n1' }, { phase: 'Running', containerStatuses: [container(), container()] }), [
    'Running',
    '2/2 ready',
    'node n1',
  ])
  const restarted = [container({ restartCount: 2 }), container({ ready: false, restartCount: 1 })]
  t.same(facts({}, { phase: 'Running', containerStatuses: restarted }), ['Running', '1/2 ready', '3 restarts'])
  t.same(facts({}, { phase: 'Running', initContainerStatuses: [container({ restartCount: 1 })] }), [
    'Running',
    '1 restart',
  ])
  t.same(facts({}, { phase: 'Failed', reason: 'Evicted' }), ['Evicted'])
  t.same(facts({}, { phase: 'Pending' }), ['Pending'])
})

t.test('what a container waits with stands for the phase, also of the first ones', async (t) => {
  const crashing = container({ ...waiting('CrashLoopBackOff'), restartCount: 7 })
  t.same(facts({}, { phase: 'Running', containerStatuses: [container(), crashing] }), [
    'CrashLoopBackOff',
    '1/2 ready',
    '7 restarts',
  ])
  const initial = {
    phase: 'Pending',
    initContainerStatuses: [crashing],
    containerStatuses: [waiting('PodInitializing')],
  }
  t.same(facts({}, initial), ['Init:CrashLoopBackOff', '0/1 ready', '7 restarts'])
  t.same(facts({}, { phase: 'Pending', containerStatuses: [waiting('ContainerCreating')] }), [
    'ContainerCreating',
    '0/1 ready',
  ])
  t.same(facts({}, { phase: 'Pending', containerStatuses: [waiting('ContainerCreating'), waiting('ErrImagePull')] }), [
    'ErrImagePull',
    '0/2 ready',
  ])
})

t.test('how many of the first containers have ended, as kubectl has it', async (t) => {
  const spec = { initContainers: [{ name: 'a' }, { name: 'b', restartPolicy: 'Always' }, { name: 'c' }] }
  const of = (initContainerStatuses: object[], phase = 'Pending') =>
    facts(spec, { phase, initContainerStatuses, containerStatuses: [waiting('PodInitializing')] })[0]
  const ended = (exitCode: number, reason?: string) => ({ state: { terminated: { exitCode, reason } } })
  const up = (started: boolean) => ({ started, state: { running: {} } })
  const not = waiting('PodInitializing')
  t.equal(of([up(true), not, not]), 'Init:0/3', 'one that runs has not ended')
  t.equal(of([ended(0), up(false), not]), 'Init:1/3')
  t.equal(of([ended(0), up(true), not]), 'Init:2/3', 'a sidecar that has started lets others begin')
  t.equal(of([ended(1, 'Error'), not, not]), 'Init:Error')
  t.equal(of([ended(2), not, not]), 'Init:ExitCode:2')
  t.equal(of([ended(0), up(true), ended(0)]), 'PodInitializing')
  t.equal(of([ended(1, 'Error'), not, not], 'Failed'), 'PodInitializing', 'it has ended')
})

t.test('of a Pod whose node is not heard of it says what was known last', async (t) => {
  const conditions = (ready: object) => [
    { type: 'Ready', status: 'False', ...ready },
    { type: 'ContainersReady', status: 'True' },
  ]
  const status = { phase: 'Running', containerStatuses: [container()] }
  t.same(facts({ nodeName: 'n1' }, { ...status, conditions: conditions({}) }), [
    'Unknown',
    'last known: Running 1/1 ready',
    'node n1',
  ])
  const gated = { ...status, conditions: conditions({ reason: 'ReadinessGatesNotReady' }) }
  t.same(facts({ nodeName: 'n1' }, gated), ['Running', '1/1 ready', 'node n1'], 'of gates the kubelet itself tells')
  const gates = { nodeName: 'n1', readinessGates: [{ conditionType: 'example.com/lb' }] }
  t.same(facts(gates, { ...status, conditions: conditions({}) }), ['Running', '1/1 ready', 'node n1'])
})

t.test('what is being deleted is Terminating, as kubectl has it, until its containers have ended', async (t) => {
  const metadata = { deletionTimestamp: '2026-11-20T10:00:00Z' }
  const of = (status: object, kind = 'Pod') => projectionOf(kind, { metadata, spec: {}, status }).facts
  const running = { phase: 'Running', containerStatuses: [container()] }
  t.same(of(running), ['Terminating', '1/1 ready'])
  t.same(of({ phase: 'Running', containerStatuses: [waiting('CrashLoopBackOff')] }), ['Terminating', '0/1 ready'])
  const lost = [
    { type: 'Ready', status: 'False' },
    { type: 'ContainersReady', status: 'True' },
  ]
  t.same(of({ ...running, conditions: lost }), ['Terminating', 'last known: Running 1/1 ready'])
  t.same(of({ phase: 'Failed', reason: 'Evicted' }), ['Evicted'])
  t.same(of({ phase: 'Bound' }, 'PersistentVolumeClaim'), ['Terminating', 'Bound'])
  t.same(of({}, 'example.com/Widget'), ['Terminating'], 'of whatever kind')
  t.same(projectionOf('Pod', { metadata: { deletionTimestamp: 7 }, status: running }).facts, ['Running', '1/1 ready'])
})

t.test('nothing of it need be there, or be what it should', async (t) => {
  for (const value of [null, 'x', 7, [], true, undefined]) t.same(facts(value, value), [])
  const odd = { phase: 7, containerStatuses: [null, 'x', { restartCount: '3', ready: 'true', state: [] }] }
  t.same(facts({ nodeName: {} }, odd), ['0/1 ready'])
})
