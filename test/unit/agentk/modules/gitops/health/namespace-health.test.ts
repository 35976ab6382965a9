import t, { type Test } from 'tap'
import { argoHealth } from '../../../../../../src/agentk/health/argo/argo.ts'
import { NamespaceHealth } from '../../../../../../src/agentk/modules/gitops/health/namespace-health.ts'
import type { RelatedListener } from '../../../../../../src/agentk/modules/gitops/health/related-namespaces.ts'
import type { HealthVerdict } from '../../../../../../src/agentk/modules/gitops/health-verdict.ts'
import { keyText, type ObjectKey } from '../../../../../../src/kubernetes/key.ts'
import type { KubernetesObject } from '../../../../../../src/kubernetes/object.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Verdicts on a Deployment by the Pods that it owns, with a double of what is read of its namespace. */

const web: ObjectKey = { group: 'apps', kind: 'Deployment', namespace: 'shop', name: 'web' }
const text = keyText(web)
const controlledBy = (kind: string, uid: string) => [{ apiVersion: 'apps/v1', kind, name: uid, uid, controller: true }]
const started = '2026-06-01T00:00:00Z'

const deployment = (generation: number, { observed = generation, ready = 0 } = {}): KubernetesObject => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'web', namespace: 'shop', uid: 'd', generation, creationTimestamp: started },
  spec: { replicas: 2 },
  status: {
    observedGeneration: observed,
    replicas: 2,
    updatedReplicas: 2,
    readyReplicas: ready,
    availableReplicas: ready,
    unavailableReplicas: 2 - ready,
    conditions: [
      { type: 'Available', status: ready === 2 ? 'True' : 'False', reason: 'x', lastTransitionTime: started },
      { type: 'Progressing', status: 'True', reason: 'ReplicaSetUpdated', lastTransitionTime: started },
    ],
  },
})
const set = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  metadata: {
    name: 'web-1',
    namespace: 'shop',
    uid: 'r',
    creationTimestamp: started,
    annotations: { 'deployment.kubernetes.io/revision': '1' },
    ownerReferences: controlledBy('Deployment', 'd'),
  },
  spec: { replicas: 2 },
  status: { replicas: 2 },
}
const pod = (name: string, waiting?: object): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name,
    namespace: 'shop',
    uid: name,
    creationTimestamp: started,
    ownerReferences: controlledBy('ReplicaSet', 'r'),
  },
  spec: { nodeName: 'n', containers: [{ name: 'web', image: 'web:2' }] },
  status: {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: started }],
    containerStatuses: [
      { name: 'web', image: 'web:2', ready: false, restartCount: 0, state: { waiting: waiting ?? creating } },
    ],
  },
})
const creating = { reason: 'ContainerCreating' }
const noImage = { reason: 'ImagePullBackOff', message: 'Back-off pulling image "web:2": ErrImagePull: not found' }

/** verdict of a rule that looks at no generation, as many of vendors */
const healthy = { status: 'Healthy', text: '' } as const

function start(t: Test) {
  const clock = new ManualClock()
  const objects = new Map<string, KubernetesObject>()
  const gone = new Map<string, number>()
  let listener: RelatedListener | undefined
  const given = { isFull: false }
  const related = {
    get objects() {
      return objects.values()
    },
    trouble: new Map(),
    evidence: () => new Map(),
    isWhole: () => false,
    awaitsPods: () => false,
    deletedAt: (name: string) => gone.get(name),
  }
  const health = new NamespaceHealth(
    {
      enter: (one) => {
        if (given.isFull) return undefined
        listener = one
        return { objects: related as never, explain: () => undefined, leave: () => undefined }
      },
      turn: (judge) => clock.after(0, judge),
      room: new Counter<string>({ max: 1e6 }),
      verdictsOf: (object) => ({ argo: object.kind === 'Ruled' ? healthy : argoHealth(object) }),
      onChange: () => undefined,
      clock,
    },
    'shop',
  )
  t.teardown(() => health.stop())
  const put = (...all: readonly KubernetesObject[]) => {
    for (const one of all) objects.set((one.metadata as { uid: string }).uid, one)
    listener?.onChange()
  }
  return {
    clock,
    given,
    health,
    put,
    end: () => listener?.onEnd(),
    hasEntered: () => listener !== undefined,
    deletePod: (name: string) => {
      objects.delete(name)
      gone.set(name, clock.now())
      listener?.onChange()
    },
    read: (object: KubernetesObject) => health.put({ key: web, version: 'v1' }, object),
    verdict: () => health.verdicts.get(text) as HealthVerdict,
  }
}

t.test('a read of a degraded workload does not make it progressing until its Pods are judged', async (t) => {
  const { clock, put, read, verdict } = start(t)
  t.match(read(deployment(1)), { word: 'Progressing' })
  put(set, pod('web-1-a', noImage))
  clock.advance(300)
  t.match(verdict(), { word: 'Degraded', cause: { culprit: { name: 'web-1-a' }, reason: 'ImageNotFound' } })
  t.match(read(deployment(1)), { word: 'Degraded', cause: { reason: 'ImageNotFound' } })
  clock.advance(300)
  t.match(verdict(), { word: 'Degraded' })
  t.match(read(deployment(2)), { word: 'Progressing' }, 'another spec: what its Pods were is not known of it')
  t.match(read(deployment(2, { ready: 2 })), { word: 'Healthy' })
})

t.test('a workload whose failing Pods are replaced stays degraded, and no longer than that', async (t) => {
  const { clock, put, read, verdict, deletePod } = start(t)
  read(deployment(1))
  put(set, pod('web-1-a', noImage))
  clock.advance(300)
  t.match(verdict(), { word: 'Degraded' })
  deletePod('web-1-a')
  put(pod('web-1-b'))
  clock.advance(5000)
  t.match(verdict(), { word: 'Degraded', cause: { culprit: { name: 'web-1-a' } } }, 'the next Pod is made')
  put(pod('web-1-b', noImage))
  clock.advance(300)
  t.match(verdict(), { word: 'Degraded', cause: { culprit: { name: 'web-1-b' } } }, 'and fails')
  deletePod('web-1-b')
  put(pod('web-1-c'))
  clock.advance(19_000)
  t.match(verdict(), { word: 'Degraded' })
  clock.advance(2000)
  t.match(verdict(), { word: 'Progressing' }, 'by time alone')
})

t.test('it is progressing at once where a Pod becomes ready, or the failing one goes on', async (t) => {
  const { clock, put, read, verdict, deletePod } = start(t)
  read(deployment(1))
  put(set, pod('web-1-a', noImage))
  clock.advance(300)
  put(pod('web-1-a'))
  clock.advance(300)
  t.match(verdict(), { word: 'Progressing' }, 'the image has come')
  put(pod('web-1-a', noImage))
  clock.advance(300)
  deletePod('web-1-a')
  clock.advance(300)
  t.match(verdict(), { word: 'Degraded' })
  read(deployment(1, { ready: 1 }))
  clock.advance(300)
  t.match(verdict(), { word: 'Progressing' })
})

t.test('a status of an earlier spec makes no object healthy', async (t) => {
  const { read } = start(t)
  t.match(read(deployment(2, { observed: 1, ready: 2 })), { word: 'Progressing' })
  const ready = { type: 'Ready', status: 'True', reason: 'ok', lastTransitionTime: started }
  const thing = (observedGeneration: number, kind = 'Thing') => ({
    apiVersion: 'example.com/v1',
    kind,
    metadata: { name: 'web', namespace: 'shop', uid: 't', generation: 2, creationTimestamp: started },
    status: { observedGeneration, conditions: [ready] },
  })
  t.match(read(thing(1)), { word: 'Progressing' })
  t.match(read(thing(2)), { word: 'Healthy' })
  t.match(read(thing(1, 'Ruled')), { word: 'Progressing' }, 'whatever a rule says')
  t.match(read(thing(2, 'Ruled')), { word: 'Healthy' })
})

t.test('an object whose condition is bad for too long becomes degraded by time alone', async (t) => {
  const { clock, read, verdict } = start(t)
  const condition = { type: 'Ready', status: 'False', reason: 'No', message: 'no', lastTransitionTime: started }
  const metadata = { name: 'web', namespace: 'shop', uid: 't', creationTimestamp: started }
  read({ apiVersion: 'example.com/v1', kind: 'Thing', metadata, status: { conditions: [condition] } })
  clock.advance(4 * 60_000)
  t.match(verdict(), { word: 'Progressing' })
  clock.advance(2 * 60_000)
  t.match(verdict(), { word: 'Degraded', cause: { reason: 'No' } })
})

t.test('a namespace whose place another account takes is entered again, and judged then', async (t) => {
  const { clock, given, health, put, read, verdict, end } = start(t)
  read(deployment(1))
  put(set, pod('web-1-a', noImage))
  clock.advance(300)
  given.isFull = true
  end()
  t.match(health.unlisted, ['Pod: workloads of more than 20 namespaces are not healthy'])
  clock.advance(25_000)
  t.match(verdict(), { word: 'Progressing', cause: { culprit: { kind: 'Deployment' } } }, 'its Pods are not read')
  given.isFull = false
  clock.advance(11_000)
  t.match(health.unlisted, [])
  t.match(verdict(), { word: 'Degraded', cause: { culprit: { name: 'web-1-a' } } })
})

t.test('a clock that is set by hours, and rollouts that wait for a year, hold no verdict', async (t) => {
  const { clock, put, read, verdict, deletePod } = start(t)
  read(deployment(1))
  put(set, pod('web-1-a', noImage))
  clock.advance(300)
  deletePod('web-1-a')
  clock.putBack(3 * 3_600_000)
  clock.advance(300)
  t.match(verdict(), { word: 'Progressing' })
  const slow = deployment(1)
  read({ ...slow, spec: { replicas: 2, minReadySeconds: 31_536_000 } })
  clock.advance(300)
  t.ok(
    clock.waits.every((ms) => ms <= 60_000),
    'a clock that is set is noticed within a minute',
  )
  t.match(read({ ...deployment(2), spec: { replicas: 2, paused: true } }), { word: 'Suspended' })
})

t.test('a Pod of its own has its events read, and a custom kind has not', async (t) => {
  const { health, hasEntered } = start(t)
  const ready = { type: 'Ready', status: 'False', reason: 'No', message: 'no', lastTransitionTime: started }
  const metadata = { name: 'one', namespace: 'shop', uid: 't', creationTimestamp: started }
  const thing = { apiVersion: 'example.com/v1', kind: 'Thing', metadata, status: { conditions: [ready] } }
  health.put({ key: { ...web, group: 'example.com', kind: 'Thing' }, version: 'v1' }, thing)
  t.equal(hasEntered(), false)
  health.put({ key: { ...web, group: '', kind: 'Pod' }, version: 'v1' }, pod('web', noImage))
  t.equal(hasEntered(), true)
})
