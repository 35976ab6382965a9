import t, { type Test } from 'tap'
import { type CollectionReader, DriftWatches } from '../../../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { inventoryLabel } from '../../../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import { nameOf } from '../../../../../../src/kubernetes/object.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'
import { ScriptedApi } from '../../../../agentk/cluster/scripted-api.ts'

const object = (name: string, label: string | undefined, version: number) => ({
  metadata: {
    namespace: 'shop',
    name,
    resourceVersion: String(version),
    ...(label !== undefined && { labels: { [inventoryLabel]: label } }),
  },
})

/** A source that keeps the objects with these names, and notes what it gets. */
function readerOf(source: string, ...names: string[]) {
  const words: string[] = []
  const reader: CollectionReader = {
    source,
    keeps: (one) => names.includes(nameOf(one)),
    seen: (one) => words.push(`seen ${nameOf(one)}`),
    left: (one) => words.push(`left ${nameOf(one)}`),
    listing: () => words.push('listing'),
    listed: () => words.push('listed'),
    following: () => undefined,
    refused: (status) => words.push(`refused ${status}`),
  }
  return { reader, take: () => words.splice(0) }
}

/** Starts the watch of two sources with one object each: `a` of 42-7, `b` of 42-8. */
async function start(t: Test) {
  const [api, clock] = [new ScriptedApi(), new ManualClock()]
  const watches = new DriftWatches({ clock, random: () => 0.5 })
  const [one, other] = [readerOf('42-7', 'a'), readerOf('42-8', 'b')]
  const path = '/api/v1/configmaps'
  const ends = [one, other].map(({ reader }) => watches.follow({ client: api, account: '', path }, reader))
  t.teardown(() => {
    for (const end of ends) end?.()
  })
  /** Answers a watch that begins with a list. */
  const list = async (...items: object[]) => {
    const watch = await api.watch(path)
    await watch.open()
    const end = { annotations: { 'k8s.io/initial-events-end': 'true' }, resourceVersion: '1' }
    const added = items.map((one) => ({ type: 'ADDED' as const, object: one }))
    await watch.tell(...added, { type: 'BOOKMARK', object: { metadata: end } })
    return watch
  }
  await list()
  clock.advance(1000) // the second source joins, with a new list
  const watch = await list(object('a', '42-7', 1), object('b', '42-8', 1))
  t.ok(one.take().includes('seen a'))
  t.ok(other.take().includes('seen b'))
  return { api, clock, watch, list, one, other }
}

t.test('an object whose label somebody has changed is seen by the source that keeps it', async (t) => {
  const { watch, one, other } = await start(t)
  await watch.tell({ type: 'MODIFIED', object: object('a', 'nobody', 2) })
  t.strictSame([one.take(), other.take()], [['seen a'], []])
  await watch.tell({ type: 'MODIFIED', object: object('a', '42-8', 3) })
  t.strictSame([one.take(), other.take()], [['seen a'], ['seen a']], 'so is it by the source of the label')
  await watch.tell({ type: 'MODIFIED', object: object('a', '42-7', 4) })
  t.strictSame([one.take(), other.take()], [['seen a'], []], 'once')
  await watch.tell({ type: 'DELETED', object: object('a', 'nobody', 5) })
  t.strictSame([one.take(), other.take()], [['left a'], []])
  await watch.tell({ type: 'ADDED', object: object('c', 'nobody', 6) })
  t.strictSame([one.take(), other.take()], [[], []], 'another object is nobody’s')
})

t.test('a list leaves it to the source to find what it lacks', async (t) => {
  const { clock, watch, list, one, other } = await start(t)
  await watch.tell({ type: 'ERROR', object: { kind: 'Status', code: 410 } })
  await clock.pass(2000)
  await list(object('a', 'nobody', 7), object('b', '42-8', 7))
  t.strictSame(
    [one.take(), other.take()],
    [
      ['listing', 'listed'],
      ['listing', 'seen b', 'listed'],
    ],
  )
})

t.test('events that are none end the watch, and no more than that', async (t) => {
  const wrong = [
    'null',
    '7',
    '{}',
    '[]',
    '{"type":"MODIFIED"}',
    '{"type":"MODIFIED","object":null}',
    '{"type":"DELETED","object":7}',
    '{"type":"ERROR"}',
    '{"type":"BOOKMARK","object":null}',
    '{"type":"MODIFIED","object":{"metadata":null}}',
    '{"type":"MODIFIED","object":{"metadata":{"labels":["42-7"]}}}',
    '{"type":"UNHEARD","object":{"kind":"Status","metadata":{"resourceVersion":{"a":1}}}}',
    '{',
    `${'['.repeat(100_000)}`,
  ]
  for (const line of wrong) {
    const { api, clock, watch, one } = await start(t)
    await watch.bytes(Buffer.from(`${line}\n`))
    await clock.pass(400_000)
    await watch.end()
    await clock.pass(400_000)
    const [next] = await api.waiting()
    t.equal(next, '/api/v1/configmaps', line.slice(0, 60))
    t.notOk(one.take().includes('seen a'), line.slice(0, 60))
  }
})
