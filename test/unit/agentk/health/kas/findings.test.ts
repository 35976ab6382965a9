import t from 'tap'
import { findingsOf } from '../../../../../src/agentk/health/kas/findings.ts'
import type { KubernetesObject } from '../../../../../src/kubernetes/object.ts'
import { Snapshot } from '../../../../support/situations/snapshot.ts'
import { ago, condition, ended, event, now, object, pod, waiting } from './world.ts'

/** Returns the findings of the first object, each with the kinds that a caller must be able to list. */
function found(objects: readonly KubernetesObject[], events: readonly KubernetesObject[] = []) {
  const snapshot = new Snapshot({ now, objects, events, verdicts: () => ({}) })
  return findingsOf(objects[0] as KubernetesObject, snapshot).map(({ reason, needs }) => [
    reason,
    needs.map(([kind]) => kind).join(' '),
  ])
}

const creating = pod({ phase: 'Pending', ready: ['False', 30], container: waiting('ContainerCreating') })

t.test('the last finding is of the object alone', async (t) => {
  t.same(found([creating], [event(creating, 'FailedMount', 'no')]), [
    ['FailedMount', 'Event'],
    ['ContainerCreating', ''],
  ])
  t.same(found([creating]), [['ContainerCreating', '']])
})

t.test('a Service: by all that is read for it, then by less', async (t) => {
  const balanced = { type: 'LoadBalancer', selector: { app: 'a' } }
  const service = object('Service', 's', { spec: balanced })
  const events = [event(service, 'SyncLoadBalancerFailed', 'no'), event(creating, 'FailedMount', 'no')]
  t.same(found([service, creating], events), [
    ['SyncLoadBalancerFailed', 'Event'],
    ['NoReadyEndpoints', 'discovery.k8s.io/EndpointSlice Pod'],
    ['LoadBalancerPending', ''],
  ])
})

t.test('a Service whose Pods are as bad needs as little as one of them, whichever comes first', async (t) => {
  const service = object('Service', 's', { spec: { selector: { app: 'a' } } })
  const container = { ...waiting('CrashLoopBackOff'), lastState: ended(1, 'Error', 50, 40) }
  const crashing = (name: string) => pod({ name, container: { restartCount: 5, ...container } })
  const unmounted = (name: string) =>
    pod({ name, phase: 'Pending', ready: ['False', 3000], container: waiting('ContainerCreating') })
  const foundWith = (...pods: readonly KubernetesObject[]) =>
    found(
      [service, ...pods],
      pods.map((one) => event(one, 'FailedMount', 'no')),
    )
  t.same(foundWith(unmounted('a')), [
    ['NoReadyEndpoints', 'discovery.k8s.io/EndpointSlice Pod Event'],
    ['NoReadyEndpoints', 'discovery.k8s.io/EndpointSlice Pod'],
  ])
  const both = [['NoReadyEndpoints', 'discovery.k8s.io/EndpointSlice Pod']]
  t.same(foundWith(crashing('a'), unmounted('b')), both)
  t.same(foundWith(unmounted('a'), crashing('b')), both)
})

t.test('a run that is known to be well is a finding too: without its Jobs a CronJob looks otherwise', async (t) => {
  const cron = object('batch/CronJob', 'c', { status: { lastScheduleTime: ago(60), lastSuccessfulTime: ago(600) } })
  const reference = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'c', uid: 'uid-batch/CronJob-c', controller: true }
  const run = object(
    'batch/Job',
    'j',
    { status: { conditions: [condition('Complete', 'True', 30)] } },
    { ownerReferences: [reference] },
  )
  t.same(found([cron, run]), [
    ['', 'batch/Job'],
    ['LastRunFailed', ''],
  ])
})

t.test('time alone makes it Degraded when it is due', async (t) => {
  const at = (time: number) => {
    const snapshot = new Snapshot({ now: time, objects: [creating], events: [], verdicts: () => ({}) })
    return findingsOf(creating, snapshot)[0]
  }
  const { word, due = 0 } = at(now) ?? {}
  t.same([word, due], ['Progressing', now + 570_000])
  t.equal(at(due - 1)?.word, 'Progressing')
  t.match(at(due), { word: 'Degraded', due: undefined })
})

t.test('the back-off alone: what was found of the same pull before is so still', async (t) => {
  const failing = (message: string, reason = 'ImagePullBackOff') =>
    pod({ phase: 'Pending', ready: ['False', 5], container: waiting(reason, message) })
  const answered = failing('code = NotFound desc = not found', 'ErrImagePull')
  const [before] = findingsOf(answered, new Snapshot({ now, objects: [], events: [], verdicts: () => ({}) }))
  const silent = failing('Back-off pulling image "registry.example.com/app:1"')
  class Remembering extends Snapshot {
    override before() {
      return before
    }
  }
  const [after] = findingsOf(silent, new Remembering({ now, objects: [silent], events: [], verdicts: () => ({}) }))
  t.match(after, { word: 'Degraded', reason: 'ImageNotFound', text: before?.text ?? 'no text' })
})
