import t, { type Test } from 'tap'
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { kindOf, kinds, recordOf } from '../../../../../support/views/records.ts'
import { agent, user, ViewStage } from '../../../../../support/views/view-stage.ts'

/** Rows name the kinds that their verdicts depend on and that cannot be listed. */

const queue = kindOf('p1.example.com/Queue', 'queues')
const fleet = kindOf('example.com/Fleet', 'fleets')
const widget = kindOf('acme.org/Widget', 'widgets')

const unsaid = (uid: string, more: Partial<Parameters<typeof recordOf>[0]> = {}): ObjectRecord =>
  recordOf({ uid, kind: fleet, verdict: 'Healthy', ...more })
const said = (uid: string, by: 'rules' | 'users', more: object = {}): ObjectRecord => {
  const record = unsaid(uid, more)
  return { ...record, health: { ...(record.health as NonNullable<ObjectRecord['health']>), by } }
}

function start(t: Test, records: readonly ObjectRecord[], aside = queue): ViewStage {
  const stage = new ViewStage()
  stage.api.rights.set('', [['*/*', '*']])
  t.teardown(() => stage.close())
  for (const record of records) stage.records.put(record)
  for (const kind of [kinds.pod, kinds.configMap, kinds.deployment, fleet, widget, queue]) stage.states.set(kind, {})
  stage.states.set(aside, { is: 'aside', why: 'the API server answered 500' })
  return stage
}

t.test('what stands below an object of which nobody says how it is', async (t) => {
  const [by, other, rules, users] = [unsaid('by'), unsaid('other'), said('rules', 'rules'), said('users', 'users')]
  const between = recordOf({ uid: 'between', kind: kinds.configMap, owner: unsaid('far') })
  const below = (uid: string, owner: ObjectRecord) => recordOf({ uid, kind: queue, owner, verdict: 'Healthy' })
  const queues = [below('q1', by), below('q2', rules), below('q3', users), below('q4', between)]
  const stage = start(t, [by, other, rules, users, unsaid('far'), between, ...queues])
  for (const view of ['tree', 'list'] as const) {
    const { client } = stage.open(agent, { view })
    for (let i = 0; i < 4; i++) await stage.pass(100)
    const found = () => ['by', 'other', 'rules', 'users', 'far'].map((id) => client.rows.get(id)?.a)
    t.strictSame(found(), [[queue.key], undefined, undefined, undefined, [queue.key]], view)
    stage.states.set(queue, { is: 'live' })
    await stage.pass(100)
    t.strictSame(found(), [undefined, undefined, undefined, undefined, undefined], view)
    stage.states.set(queue, { is: 'aside', why: 'the API server answered 500' })
    await stage.pass(100)
    t.strictSame(client.rows.get('far')?.a, [queue.key])
    stage.records.put({ ...between, owner: undefined })
    await stage.pass(100)
    t.equal(client.rows.get('far')?.a, undefined, 'it belongs to nobody now')
    stage.records.put(between)
    await stage.pass(100)
  }
})

t.test('what a Deployment below it is made from', async (t) => {
  const deployment = recordOf({ uid: 'd', kind: kinds.deployment, owner: unsaid('by'), verdict: 'Healthy' })
  const stage = start(t, [unsaid('by'), unsaid('other'), deployment], kinds.pod)
  const { client } = stage.open(agent, { view: 'tree' })
  for (let i = 0; i < 4; i++) await stage.pass(100)
  t.strictSame(client.rows.get('by')?.a, ['Pod'])
  t.equal(client.rows.get('other')?.a, undefined)
})

t.test('a kind that was never listed may stand below each of its domain, and below no other', async (t) => {
  const stage = start(t, [
    unsaid('by'),
    said('rules', 'rules'),
    recordOf({ uid: 'w', kind: widget, verdict: 'Healthy' }),
  ])
  stage.records.put(recordOf({ uid: 'd', kind: kinds.deployment, verdict: 'Healthy' }))
  const { client } = stage.open(agent, { view: 'tree' })
  for (let i = 0; i < 4; i++) await stage.pass(100)
  t.strictSame(client.rows.get('by')?.a, [queue.key])
  for (const id of ['rules', 'w', 'd']) t.equal(client.rows.get(id)?.a, undefined, id)
})

t.test('what the caller may not list is not there', async (t) => {
  const between = recordOf({ uid: 'between', kind: kinds.configMap, owner: unsaid('by') })
  const stage = start(t, [unsaid('by'), between, recordOf({ uid: 'q', kind: queue, owner: between })])
  stage.api.rights.set('ann', [
    ['example.com/fleets', 'shop'],
    ['p1.example.com/queues', 'shop'],
  ])
  stage.api.rights.set('bob', [['example.com/fleets', 'shop']])
  const scope = { namespaces: ['shop'] }
  const views = ['ann', 'bob'].map((name) => stage.open(user(name), { view: 'tree', scope }).client)
  for (let i = 0; i < 8; i++) await stage.pass(100)
  const [ann, bob] = views as [(typeof views)[0], (typeof views)[0]]
  t.match(ann.state?.aside, [[queue.key]])
  t.equal(ann.rows.get('by')?.a, undefined, 'it is a root to her')
  t.equal(bob.state?.aside, undefined)
  t.equal(bob.rows.get('by')?.a, undefined)
})

t.test('of many that are one row, and of one with more children than are read', async (t) => {
  const fleets = Array.from({ length: 60 }, (_, i) => unsaid(`f${i}`))
  const stage = start(t, [...fleets, recordOf({ uid: 'q', kind: queue, owner: fleets[59] as ObjectRecord })])
  const { client } = stage.open(agent, { view: 'tree' })
  for (let i = 0; i < 4; i++) await stage.pass(100)
  t.strictSame(client.rows.get(`b::${fleet.key}`)?.a, [queue.key])

  const many = Array.from({ length: 1001 }, (_, i) =>
    recordOf({ uid: `c${i}`, kind: kinds.configMap, owner: unsaid('by') }),
  )
  const other = recordOf({ uid: 'q', kind: queue, namespace: 'bank' })
  const large = start(t, [unsaid('by'), ...many, other])
  const { client: one } = large.open(agent, { view: 'tree' })
  for (let i = 0; i < 4; i++) await large.pass(100)
  t.strictSame(one.rows.get('by')?.a, [queue.key], 'it may be there')
})
