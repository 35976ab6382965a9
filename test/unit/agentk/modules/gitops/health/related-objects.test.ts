import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { RelatedObjects } from '../../../../../../src/agentk/modules/gitops/health/related-objects.ts'
import { maxExplainedChars, maxNamespaceChars } from '../../../../../../src/agentk/modules/gitops/health/slim-object.ts'
import { Counter } from '../../../../../../src/lib/counter.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Objects that workloads own, with an API server that lists, and whose watches stay open or are refused. */

interface Owned {
  readonly name: string
  readonly owner: string
}

interface Handler {
  onHead(status: number): void
  onEnd(): void
  onError(error: Error): void
}

function start(t: Test, { watchStatus = 200, room = new Counter<string>(), namespace = 'shop' } = {}) {
  const clock = new ManualClock()
  const sets: Owned[] = []
  const pods: Owned[] = []
  const events: object[] = []
  const asked: string[] = []
  let podLists = 0
  let changes = 0
  const bodyOf = (kind: string, { name, owner }: Owned) => ({
    metadata: { name, namespace: 'shop', uid: name, ownerReferences: [{ kind, name: owner, uid: owner }] },
    spec: { replicas: 1 },
    status: { replicas: 1, phase: 'Pending' },
  })
  const json = async (_method: string, path: string) => {
    asked.push(decodeURIComponent(path))
    if (path.includes('/events')) return { status: 200, body: { metadata: { resourceVersion: '1' }, items: events } }
    const isPods = path.includes('/pods')
    if (isPods) podLists += 1
    const items = isPods
      ? pods.map((one) => bodyOf('ReplicaSet', one))
      : path.includes('/replicasets')
        ? sets.map((one) => bodyOf('Deployment', one))
        : []
    return { status: 200, body: { metadata: { resourceVersion: '1' }, items } }
  }
  const send = (_request: unknown, handler: Handler) => {
    queueMicrotask(() => {
      handler.onHead(watchStatus)
      if (watchStatus !== 200) handler.onEnd()
    })
    return { abort: (reason: Error) => handler.onError(reason), pause: () => undefined, resume: () => undefined }
  }
  const related = new RelatedObjects(
    {
      client: { json, send } as never,
      onChange: () => {
        changes += 1
      },
      room,
      clock,
      random: () => 0.5,
    },
    namespace,
  )
  t.teardown(() => related.stop())
  return {
    clock,
    related,
    sets,
    pods,
    events,
    asked,
    podLists: () => podLists,
    changes: () => changes,
    names: () => Array.from(related.objects, ({ metadata }) => (metadata as { name: string }).name).sort(),
    settle: async () => {
      for (let i = 0; i < 20; i++) await setImmediate()
    },
  }
}

t.test('Pods that were dropped for want of room are read once their workload is to be explained', async (t) => {
  const { clock, related, sets, pods, names, settle, podLists } = start(t)
  sets.push({ name: 'late-1', owner: 'late' })
  pods.push({ name: 'late-1-x', owner: 'late-1' })
  for (let i = 0; i < 300; i++) pods.push({ name: `other-${i}`, owner: 'other' })
  related.explain(new Set(['early']))
  await settle()
  t.strictSame(names(), [])
  related.explain(new Set(['early', 'late']))
  related.explain(new Set(['early', 'late', 'later']))
  await settle()
  t.equal(podLists(), 1, 'not at once: tenants may ask for it all the time')
  clock.advance(61_000)
  await settle()
  t.equal(podLists(), 2)
  clock.advance(300_000)
  await settle()
  t.equal(podLists(), 2, 'once')
  t.strictSame(names(), ['late-1', 'late-1-x'])
})

t.test('where Pods may not be watched they are read every 10 s at most, and that is told', async (t) => {
  const { clock, related, sets, pods, names, settle, changes } = start(t, { watchStatus: 403 })
  sets.push({ name: 'web-1', owner: 'web' })
  related.explain(new Set(['web']))
  await settle()
  t.equal(related.trouble.get('Pod'), 'read every 10 s: agentk may not watch them (403)')
  pods.push({ name: 'web-1-x', owner: 'web-1' })
  const before = changes()
  clock.advance(10_000)
  await settle()
  t.strictSame(names(), ['web-1', 'web-1-x'])
  t.ok(changes() > before, 'and judged')
})

t.test('10,000 Pods of one tenant leave room for the namespaces of others', async (t) => {
  const room = new Counter<string>({ max: maxExplainedChars, maxOfKey: maxNamespaceChars })
  const hostile = start(t, { room, namespace: 'hostile' })
  hostile.sets.push({ name: 'web-1', owner: 'web' })
  for (let i = 0; i < 10_000; i++) hostile.pods.push({ name: `web-1-${i}-${'x'.repeat(20_000)}`, owner: 'web-1' })
  hostile.related.explain(new Set(['web']))
  await hostile.settle()
  t.ok(room.of('hostile') <= maxNamespaceChars)
  t.match(hostile.related.trouble.get('Pod'), /too many of them, or too large/)
  const other = start(t, { room, namespace: 'other' })
  other.sets.push({ name: 'api-1', owner: 'api' })
  other.pods.push({ name: 'api-1-x', owner: 'api-1' })
  other.related.explain(new Set(['api']))
  await other.settle()
  t.strictSame(other.names(), ['api-1', 'api-1-x'])
  t.strictSame([...other.related.trouble], [])
  hostile.pods.length = 0
  hostile.pods.push({ name: 'web-1-y', owner: 'web-1' })
  hostile.clock.advance(299_000)
  await hostile.settle()
  t.equal(hostile.podLists(), 1, 'a tenant has no list for each of its Pods')
  hostile.clock.advance(2000)
  await hostile.settle()
  t.strictSame(hostile.names(), ['web-1', 'web-1-y'])
  t.strictSame([...hostile.related.trouble], [], 'nothing is missing any more')
})

t.test('a Normal event says which probe has ended a container; those of usual starts are not asked for', async (t) => {
  const { clock, related, events, asked, settle } = start(t)
  const time = new Date(clock.now()).toISOString()
  events.push({
    metadata: { name: 'e', namespace: 'shop', uid: 'e', creationTimestamp: time },
    type: 'Normal',
    reason: 'Killing',
    message: 'Container c failed liveness probe, will be restarted',
    involvedObject: { kind: 'Pod', namespace: 'shop', name: 'web', uid: 'p', fieldPath: 'spec.containers{c}' },
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  })
  related.explain(new Set(['p']))
  await settle()
  t.match(related.evidence().get('p'), [{ reason: 'Killing', container: 'c' }])
  const selector = asked.find((path) => path.includes('/events')) ?? ''
  t.match(selector, /reason!=Pulled/)
  t.notMatch(selector, /type=Warning/)
})

t.test('a workload waits for its own Pods that are not ready, as far as a watch tells of them', async (t) => {
  const { related, sets, pods, settle } = start(t)
  sets.push({ name: 'web-1', owner: 'web' })
  pods.push({ name: 'web-1-x', owner: 'web-1' })
  related.explain(new Set(['web', 'api']))
  await settle()
  t.equal(related.awaitsPods('web'), true)
  t.equal(related.awaitsPods('api'), false)
  const listed = start(t, { watchStatus: 403 })
  listed.sets.push({ name: 'web-1', owner: 'web' })
  listed.pods.push({ name: 'web-1-x', owner: 'web-1' })
  listed.related.explain(new Set(['web']))
  await listed.settle()
  t.equal(listed.related.awaitsPods('web'), false)
})
