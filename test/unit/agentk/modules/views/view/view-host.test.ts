import t, { type Test } from 'tap'
import { eventKind } from '../../../../../../src/agentk/modules/views/access/list-rights.ts'
import { leastRows, viewLimitsDefaults } from '../../../../../../src/agentk/modules/views/view/view-limits.ts'
import { viewsBounds } from '../../../../../../src/proto/views-json.ts'
import { kinds, recordOf } from '../../../../../support/views/records.ts'
import { agent, user, ViewStage } from '../../../../../support/views/view-stage.ts'

function start(t: Test): ViewStage {
  const stage = new ViewStage()
  stage.api.rights.set('', [['*/*', '*']])
  t.teardown(() => stage.close())
  return stage
}

const deployment = recordOf({ uid: 'web', kind: kinds.deployment, verdict: 'Healthy', application: 'shop' })
const set = recordOf({ uid: 'web-1', kind: kinds.replicaSet, owner: deployment, verdict: 'Healthy' })
const pod = recordOf({ uid: 'web-1-a', owner: set, verdict: 'Degraded' })

t.test('a tree, as its nodes are opened', async (t) => {
  const stage = start(t)
  for (const record of [deployment, set, pod]) stage.records.put(record)
  const { client, view } = stage.open(agent, { view: 'tree' })
  await stage.pass()
  t.strictSame(client.order(), ['g:application/shop'])
  t.match(client.rows.get('g:application/shop'), {
    k: 'Application',
    n: 'shop',
    h: ['Healthy', 'Current', 'Healthy'],
    w: 'Degraded',
    c: 1,
  })
  view.page('g:application/shop', 10)
  view.page('web', 10)
  await stage.pass(50)
  t.strictSame(client.order('g:application/shop'), ['web'])
  t.strictSame(client.order('web'), ['web-1'])
  t.match(client.rows.get('web-1'), { p: 'web', k: 'apps/ReplicaSet', ns: 'shop', n: 'web-1', c: 1, w: 'Degraded' })
  t.strictSame(client.kinds.get('apps/ReplicaSet'), ['v1', 'replicasets'])
  stage.records.put(recordOf({ uid: 'web-1-a', owner: set, verdict: 'Healthy' }))
  await stage.pass(50)
  t.equal(client.rows.get('web-1')?.w, 'Healthy')
  view.page('web', 0)
  await stage.pass(50)
  t.equal(client.order('web'), undefined)
  t.notOk(client.rows.has('web-1'))
  view.page('hidden-or-absent', 10)
  await stage.pass(50)
  t.strictSame(client.updates.at(-1)?.pages, { 'hidden-or-absent': null })
})

t.test('a verdict of a group is that of its roots, whatever is below them', async (t) => {
  const stage = start(t)
  stage.records.put(recordOf({ uid: 'job', verdict: 'Healthy', environment: '1/prod' }))
  stage.records.put(
    recordOf({
      uid: 'failed',
      owner: recordOf({ uid: 'job' }),
      verdict: 'Degraded',
      application: 'x',
      environment: '1/prod',
    }),
  )
  stage.records.put(recordOf({ uid: 'other', verdict: 'Progressing', environment: '2/prod', namespace: 'bank' }))
  stage.records.put(recordOf({ uid: 'none', verdict: 'Unknown' }))
  const { client, view } = stage.open(agent, { view: 'environments' })
  view.page('g:environment/1/prod', 10)
  await stage.pass()
  t.strictSame(client.order(), ['g:environment/1/prod', 'g:environment/2/prod'])
  t.match(client.rows.get('g:environment/1/prod'), { k: 'Environment', h: ['Healthy'], w: 'Degraded' })
  t.strictSame(client.pages.get('')?.counts, { Healthy: 1, Progressing: 1 })
  t.strictSame(client.order('g:environment/1/prod'), ['job'])
})

t.test('more than 50 of a kind are one row', async (t) => {
  const stage = start(t)
  for (let i = 100; i < 150; i++) stage.records.put(recordOf({ uid: `p${i}`, verdict: 'Healthy' }))
  stage.records.put(recordOf({ uid: 'web', kind: kinds.deployment }))
  const { client, view } = stage.open(agent, { view: 'tree', limit: 100 })
  await stage.pass()
  t.equal(client.order()?.length, 51)
  stage.records.put(recordOf({ uid: 'p200', verdict: 'Degraded' }))
  await stage.pass(50)
  t.strictSame(client.order(), ['b::Pod', 'web'])
  t.strictSame(client.rows.get('b::Pod'), { u: 'b::Pod', k: 'Pod', n: '', c: 51, w: 'Degraded' })
  t.strictSame(client.pages.get('')?.counts, { '': 1, Healthy: 50, Degraded: 1 })
  view.page('b::Pod', 2)
  await stage.pass(50)
  t.strictSame(client.pages.get('b::Pod'), { order: ['p200', 'p100'], counts: { Healthy: 50, Degraded: 1 }, more: 49 })
  t.equal(client.rows.get('p200')?.p, 'b::Pod')
  stage.records.delete('p200')
  await stage.pass(50)
  t.equal(client.order()?.length, 51)
  t.equal(client.order('b::Pod'), undefined)
})

t.test('links of open nodes alone, to what is seen', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [
    ['/services', '*'],
    ['/pods', '*'],
  ])
  const references = [{ relation: 'routes', kind: 'apps/Deployment', namespace: 'shop', name: 'web' }]
  const selector = { labels: [['app', 'web'] as const], expressions: [] }
  stage.records.put(deployment)
  stage.records.put(recordOf({ uid: 'svc', kind: kinds.service, selector, references }))
  stage.records.put(recordOf({ uid: 'yes', labels: new Map([['app', 'web']]) }))
  stage.records.put(recordOf({ uid: 'no', labels: new Map([['app', 'db']]) }))
  const [all, some] = [stage.open(agent, { view: 'tree' }), stage.open(user('ann'), { view: 'tree' })]
  await stage.pass()
  t.equal(all.client.rows.get('svc')?.l, undefined)
  for (const { view } of [all, some]) view.page('svc', 1)
  await stage.pass(50)
  t.strictSame(all.client.rows.get('svc')?.l, [
    ['routes', 'web', 'apps/Deployment', 'shop', 'web'],
    ['selects', 'yes', 'Pod', 'shop', 'yes'],
  ])
  const named = ['routes', '', 'apps/Deployment', 'shop', 'web']
  t.strictSame(some.client.rows.get('svc')?.l, [named, ['selects', 'yes', 'Pod', 'shop', 'yes']], 'it names it itself')
  stage.records.put(recordOf({ uid: 'no', labels: new Map([['app', 'web']]) }))
  await stage.pass(50)
  t.strictSame(some.client.rows.get('svc')?.l, [
    named,
    ['selects', 'no', 'Pod', 'shop', 'no'],
    ['selects', 'yes', 'Pod', 'shop', 'yes'],
  ])
})

t.test('the whole state in updates of at most 200 KB', async (t) => {
  const stage = start(t)
  for (let i = 0; i < 400; i++) stage.records.put(recordOf({ uid: `p${i}`, facts: ['é'.repeat(1000)] }))
  const { client, view } = stage.open(agent, { view: 'list', limit: 500 })
  client.onTaken = undefined
  await stage.pass()
  t.equal(client.updates.length, 1)
  for (let i = 1; i < 20; i++) {
    view.taken(i)
    await stage.pass(50)
  }
  t.equal(client.rows.size, 400)
  t.equal(client.order()?.length, 400)
  t.ok(client.updates.length >= 4, `${client.updates.length} updates`)
  t.equal(client.updates.filter(({ rows = [], gone = [] }) => rows.length + gone.length === 0).length, 0)
  for (const text of client.texts) t.ok(Buffer.byteLength(text) <= viewsBounds.maxUpdateBytes)
})

t.test('bounds: of pages, of rows, of views', async (t) => {
  const stage = start(t)
  for (let i = 0; i < 300; i++) stage.records.put(recordOf({ uid: `p${i}`, namespace: `n${i % 50}` }))
  const { client, view } = stage.open(agent, { view: 'list', limit: 100 })
  for (let i = 0; i < 250; i++) view.page(`p${i}`, 9)
  await stage.pass()
  t.equal(client.pages.size, viewsBounds.maxPages)
  for (let i = 1; i < viewsBounds.maxViewsPerAgent; i++) stage.open(agent, { view: 'list', limit: 1 })
  t.throws(() => stage.open(agent, { view: 'tree' }), { code: 'TOO_MANY_STREAMS' })
  view.close()
  const last = stage.open(agent, { view: 'tree' })
  last.view.page('x'.repeat(5000), 1)
  t.match(last.client.error, { code: 'BAD_REQUEST' })
  last.view.page('', 1)
  stage.open(agent, { view: 'tree' })
})

t.test('a view that would see what no other does is refused when there are too many such', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxVisibilities: 2 } }
  for (const name of ['ann', 'bob', 'carl']) {
    stage.api.rights.set(name, [['/pods', name]])
    stage.records.put(recordOf({ uid: `pod-of-${name}`, namespace: name }))
  }
  stage.api.rights.set('dan', [['/pods', 'ann']])
  const see = async (name: string) => {
    const opened = stage.open(user(name), { view: 'list' })
    await stage.pass()
    await stage.pass(100)
    return opened
  }
  const ann = await see('ann')
  const bob = await see('bob')
  t.match((await see('carl')).client.error, { code: 'TOO_MANY_STREAMS', message: /different rights/ })
  t.strictSame((await see('dan')).client.order(), ['pod-of-ann'], 'he sees what Ann does')
  bob.view.close()
  t.strictSame((await see('carl')).client.order(), ['pod-of-carl'])
  t.strictSame(ann.client.order(), ['pod-of-ann'])
})

t.test('rows count that are there, not those that there might be', async (t) => {
  const stage = start(t)
  const parents = Array.from({ length: 100 }, (_, i) => recordOf({ uid: `d${i}`, kind: kinds.deployment }))
  for (const record of parents) stage.records.put(record)
  for (const owner of parents) stage.records.put(recordOf({ uid: `${owner.uid}-s`, kind: kinds.replicaSet, owner }))
  const { client: tree, view: opened } = stage.open(agent, { view: 'tree', limit: 500 })
  opened.page('b::apps/Deployment', 500)
  for (const { uid } of parents) opened.page(uid, 50)
  await stage.pass()
  t.equal(tree.pages.size, 102)
  t.equal(tree.rows.size, 201)
  for (const [i, owner] of parents.entries()) {
    if (i < 50) for (let j = 0; j < 49; j++) stage.records.put(recordOf({ uid: `${owner.uid}-${j}`, owner }))
  }
  for (let i = 0; i < 20; i++) await stage.pass(50)
  t.equal(tree.rows.size, viewsBounds.maxRows)
  const shown = [...tree.pages.values()].reduce((sum, { order }) => sum + order.length, 0)
  t.equal(shown, viewsBounds.maxRows)
  t.equal(tree.pages.get('d99')?.more, 1, 'what was opened last has no room')
  for (let j = 0; j < 49; j++) stage.records.delete(`d0-${j}`)
  for (let i = 0; i < 20; i++) await stage.pass(50)
  t.equal(tree.rows.size, viewsBounds.maxRows, 'the next have it')
})

t.test('what belongs to an owner that is not shown counts for it', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/pods', 'shop']])
  for (const record of [deployment, set, pod]) stage.records.put(record)
  const { client } = stage.open(user('ann'), { view: 'tree' })
  await stage.pass()
  t.equal(client.order()?.length, 1)
  t.strictSame(client.pages.get('')?.counts, { Degraded: 1 }, 'or a broken Pod would be healthy to who sees no more')
  stage.records.put(recordOf({ uid: 'web-1-a', owner: set, verdict: 'Healthy' }))
  await stage.pass(50)
  t.strictSame(client.pages.get('')?.counts, { Healthy: 1 })
})

t.test('a node that is closed and opened at once is told as open alone', async (t) => {
  const stage = start(t)
  for (const record of [deployment, set]) stage.records.put(record)
  const { client, view } = stage.open(agent, { view: 'tree' })
  view.page('web', 10)
  await stage.pass()
  view.page('web', 0)
  view.page('web', 20)
  stage.records.put(recordOf({ uid: 'web-2', kind: kinds.replicaSet, owner: deployment }))
  await stage.pass(50)
  t.strictSame(client.order('web'), ['web-1', 'web-2'])
  t.notMatch(client.texts.at(-1), /"web":null/)
})

t.test('events, with the right to list them in their namespace', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/events', 'shop']])
  const event = (u: string, ns: string, at: number) => ({
    u,
    ns,
    about: ['Pod', `pod-${u}`, `uid-${u}`] as const,
    type: 'Warning' as const,
    reason: 'BackOff',
    text: '',
    count: 1,
    at,
  })
  stage.events.put(event('one', 'shop', 1))
  stage.events.put(event('two', 'shop', 2))
  stage.events.put(event('three', 'bank', 3))
  const { client } = stage.open(user('ann'), { view: 'events', limit: 2 })
  const filtered = stage.open(user('ann'), { view: 'events', filter: { text: 'POD-ONE' } })
  await stage.pass()
  t.strictSame(client.order(), ['two', 'one'])
  t.strictSame(filtered.client.order(), ['one'])
  stage.events.put(event('four', 'shop', 4))
  stage.events.put(event('five', 'bank', 5))
  await stage.pass(50)
  t.strictSame(client.pages.get(''), { order: ['four', 'two'], counts: {}, more: 1 })
  t.strictSame([...client.events.keys()].sort(), ['four', 'two'])
  t.equal(filtered.client.updates.length, 1)
  stage.events.delete('four')
  await stage.pass(50)
  t.strictSame(client.order(), ['two', 'one'])
})

t.test('events of an object are asked for as the caller, of any type, while they are looked at', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/events', 'shop']])
  const told = (name: string, second: number) => ({
    metadata: { namespace: 'shop', name, uid: name },
    involvedObject: { kind: 'Pod', namespace: 'shop', name: 'web', uid: 'web' },
    type: 'Normal',
    lastTimestamp: new Date(second * 1000).toISOString(),
  })
  const asked: string[] = []
  let items: object[] | undefined = [told('pulled', 1), told('started', 2), told('scheduled', 0)]
  stage.api.events = (user, path) => {
    asked.push(`${user} ${decodeURIComponent(path)}`)
    return items
  }
  const { client, view } = stage.open(user('ann'), { view: 'events' })
  await stage.pass()
  view.page('o:shop:web', 2)
  await stage.pass(50)
  t.strictSame(asked, ['ann /api/v1/namespaces/shop/events?limit=500&fieldSelector=involvedObject.uid=web'])
  t.strictSame(client.pages.get('o:shop:web'), { order: ['started', 'pulled'], counts: {}, more: 1 })
  t.match(client.events.get('started'), { type: 'Normal', about: ['Pod', 'web', 'web'] })
  t.strictSame(client.order(), [], 'they are not among the Warnings')
  items = undefined
  await stage.pass(14_999)
  t.equal(asked.length, 1)
  await stage.pass(1)
  await stage.pass(50)
  t.equal(asked.length, 2)
  t.equal(client.pages.has('o:shop:web'), false, 'who may no longer list them has them no more')
  t.equal(client.events.size, 0)
  items = [told('pulled', 1)]
  await stage.pass(15_000)
  await stage.pass(50)
  t.strictSame(client.order('o:shop:web'), ['pulled'])
  view.page('o:shop:web', 0)
  await stage.pass(50)
  t.equal(client.pages.has('o:shop:web'), false)
  t.equal(client.events.size, 0)
  await stage.pass(60_000)
  t.equal(asked.length, 3, 'nobody looks')
  for (const node of ['b::Pod', 'o:shop:', ...Array.from({ length: 7 }, (_, i) => `o:shop:${i}`)]) view.page(node, 5)
  await stage.pass(50)
  await stage.pass(50)
  t.equal(asked.length, 8, 'five at a time')
  t.match(client.texts.join(), /"b::Pod":null/)
  t.match(client.texts.join(), /"o:shop:5":null/)
  view.close()
  await stage.pass(60_000)
  t.equal(asked.length, 8)
})

t.test('events of a namespace, of any type, as the caller is told them', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/events', 'shop']])
  const asked: string[] = []
  stage.api.events = (user, path) => {
    asked.push(`${user} ${path}`)
    const told = { metadata: { namespace: 'shop', name: 'e', uid: 'e' }, type: 'Normal', reason: 'Pulled' }
    return path.includes('/shop/') ? [told] : undefined
  }
  const { client, view } = stage.open(user('ann'), { view: 'events' })
  await stage.pass()
  for (const node of ['n:shop', 'n:', 'n:bank', 'n:a:b']) view.page(node, 5)
  await stage.pass(50)
  await stage.pass(50)
  t.strictSame(asked, [
    'ann /api/v1/namespaces/shop/events?limit=500',
    'ann /api/v1/events?limit=500',
    'ann /api/v1/namespaces/bank/events?limit=500',
  ])
  t.strictSame(client.order('n:shop'), ['e'])
  t.match(client.events.get('e'), { type: 'Normal', reason: 'Pulled' })
  for (const node of ['n:', 'n:bank', 'n:a:b']) t.match(client.texts.join(), `"${node}":null`)
})

t.test('one user asks for events of so many, in all of his views', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxAskedPerUser: 2 } }
  stage.api.events = () => []
  const open = () => stage.open(user('ann'), { view: 'events' })
  const [one, other] = [open(), open()]
  await stage.pass(1000)
  for (const [node, { view }] of [
    ['n:a', one],
    ['n:b', other],
    ['n:c', other],
    ['n:a', one],
  ] as const)
    view.page(node, 5)
  await stage.pass(50)
  await stage.pass(50)
  t.strictSame([one.client.order('n:a'), other.client.order('n:b')], [[], []])
  t.match(other.client.texts.join(), '"n:c":null')
  one.view.close()
  other.view.page('n:c', 5)
  await stage.pass(50)
  await stage.pass(50)
  t.strictSame(other.client.order('n:c'), [])
})

t.test('how far events are followed, whatever becomes of objects', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/events', '*']])
  const { client } = stage.open(user('ann'), { view: 'events' })
  await stage.pass(1000)
  await stage.pass(100)
  t.match(client.state, { is: 'syncing' }, 'they are not followed yet')
  stage.states.set(kinds.pod, { is: 'stale', since: 5, why: 'away' })
  stage.events.states.set(eventKind, { is: 'live' })
  for (let i = 0; i < 4; i++) await stage.pass(100)
  t.match(client.state, { is: 'live' })
  stage.events.states.set(eventKind, { is: 'stale', since: 7, why: 'away' })
  await stage.pass(50)
  t.match(client.state, { is: 'stale', since: 7, why: 'Event: away' })
  stage.events.states.set(eventKind, { is: 'refused' })
  await stage.pass(50)
  t.match(client.state, { is: 'live', notFollowed: ['Event'] })
})

t.test('how far the kinds are followed that he may list', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [
    ['/pods', 'shop'],
    ['apps/deployments', 'shop'],
  ])
  stage.states.set(kinds.pod, { is: 'syncing' })
  const { client } = stage.open(user('ann'), { view: 'tree', scope: { namespaces: ['shop'] } })
  await stage.pass()
  t.match(client.state, { is: 'syncing', since: 1 })
  stage.states.set(kinds.pod, { is: 'live', refusedNamespaces: ['bank', 'shop'] })
  await stage.pass(50)
  t.match(client.state, { is: 'live', notFollowed: ['Pod shop'] })
  stage.states.set(kinds.node, { is: 'stale', since: 5, why: 'away' })
  stage.states.set(kinds.deployment, {
    is: 'refused',
    leftOut: [
      { namespace: 'shop', name: 'big' },
      { namespace: 'bank', name: 'x' },
    ],
  })
  for (let i = 0; i < 4; i++) await stage.pass(100) // agentk first asks which of these can be listed
  t.match(client.state, { is: 'live', notFollowed: ['Pod shop', 'apps/Deployment', 'apps/Deployment shop/big'] })
  stage.states.set(kinds.pod, { is: 'stale', since: 7, why: 'away' })
  await stage.pass(50)
  t.strictSame(client.state, {
    is: 'stale',
    since: 7,
    why: 'Pod: away',
    notFollowed: ['apps/Deployment', 'apps/Deployment shop/big'],
  })
})

t.test('a rule that is broken is named to those who may list its kind, a file that is to all', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/pods', 'shop']])
  stage.api.rights.set('bob', [['/nodes', '*']])
  stage.states.set(kinds.pod, { is: 'live' })
  stage.states.set(kinds.node, { is: 'live' })
  const { client: ann } = stage.open(user('ann'), { view: 'tree', scope: { namespaces: ['shop'] } })
  const { client: bob } = stage.open(user('bob'), { view: 'tree' })
  await stage.pass()
  for (let i = 0; i < 4; i++) await stage.pass(100)
  t.equal(ann.state?.problems, undefined)
  stage.problems.setRules([
    { kind: 'P*', problem: 'rules[0].when: 1:3: no', isKept: true },
    { kind: 'example.com/Thing', problem: 'no', isKept: true },
    { kind: 'Pod', problem: `tests[0]: ${'x'.repeat(2000)}`, isKept: false },
  ])
  await stage.pass(100)
  t.match(ann.state, {
    is: 'live',
    problems: [
      'rule of health P* cannot be used, its last good form stays: rules[0].when: 1:3: no',
      /^rule of health Pod is not used, and no earlier form of it is known: tests\[0\]: x{502}$/,
    ],
  })
  t.equal(bob.state?.problems, undefined, 'nothing of what he may not list')
  stage.problems.setUnusable('line 1: no')
  await stage.pass(100)
  t.match(bob.state, { is: 'live', problems: ['views.yaml cannot be used, the last good one stays: line 1: no'] })
  stage.problems.setUnusable('')
  stage.problems.setRules([])
  await stage.pass(100)
  t.notOk(ann.state?.problems || bob.state?.problems, 'once they are mended nothing is said')
})

t.test('an update of the moment at which states are read has them, whichever comes first', async (t) => {
  const stage = start(t)
  stage.records.put(pod)
  stage.states.set(kinds.pod, { is: 'live' })
  const { client } = stage.open(agent, { view: 'tree' })
  await stage.pass()
  stage.records.put(recordOf({ uid: 'web-1-a', owner: set, verdict: 'Healthy' }))
  stage.states.set(kinds.pod, { is: 'stale', since: 7, why: 'away' })
  await stage.pass(50)
  t.match(client.updates.slice(1), [{ state: { is: 'stale' }, rows: [{ w: 'Healthy' }] }])
  t.equal(client.updates.length, 2)
})

t.test('what a viewer has from another pod stays until kinds are listed', async (t) => {
  const stage = start(t)
  stage.states.set(kinds.pod, { is: 'syncing' })
  const resumed = stage.open(agent, { view: 'tree' }, true).client
  const events = stage.open(agent, { view: 'events' }, true).client
  const fresh = stage.open(agent, { view: 'tree' }).client
  await stage.pass()
  stage.records.put(pod)
  await stage.pass(1000)
  t.strictSame([resumed.updates, events.updates], [[], []])
  t.match(fresh.state, { is: 'syncing' })
  stage.states.set(kinds.pod, { is: 'live' })
  await stage.pass(50)
  t.match(resumed.updates, [{ seq: 1, state: { is: 'live' }, rows: [{}] }])
  t.equal(events.updates.length, 1)
  const later = stage.open(agent, { view: 'tree' }, true).client
  await stage.pass()
  t.equal(later.updates.length, 1, 'all is known by then')
})

t.test('not for longer than a right counts', async (t) => {
  const stage = start(t)
  stage.states.set(kinds.pod, { is: 'syncing' })
  const { client } = stage.open(agent, { view: 'tree' }, true)
  await stage.pass(29_999)
  t.equal(client.updates.length, 0)
  await stage.pass(1)
  t.match(client.updates, [{ seq: 1, state: { is: 'syncing' } }])
})

t.test('by the verdict of kstatus', async (t) => {
  const stage = start(t)
  const health = (argo: 'Healthy', kstatus: 'Failed' | 'Current') => ({ argo, kstatus, argoText: 'a', kstatusText: '' })
  stage.records.put({ ...recordOf({ uid: 'good' }), health: health('Healthy', 'Current') })
  stage.records.put({ ...recordOf({ uid: 'poor' }), health: health('Healthy', 'Failed') })
  stage.options = { verdict: 'kstatus' }
  const { client } = stage.open(agent, { view: 'list' })
  await stage.pass()
  t.strictSame(client.order(), ['poor', 'good'])
  t.strictSame(client.pages.get('')?.counts, { Healthy: 1, Degraded: 1 })
  t.match(client.rows.get('poor'), { h: ['Healthy', 'Failed', 'Healthy'], why: ['a', '', ''] })
})

t.test('one user may have all views, until another wants one: the newest ends, with the reason', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxViews: 3 } }
  const [one, two, three] = [1, 2, 3].map((limit) => stage.open(user('ann'), { view: 'list', limit }).client)
  t.throws(() => stage.open(user('ann'), { view: 'list' }), { message: /Too many views, allowed: 3. You hold 3/ })
  const bobs = stage.open(user('bob'), { view: 'list' })
  t.match(three?.error, { code: 'TOO_MANY_STREAMS', message: /You hold 3 of them: end some/ })
  t.throws(() => stage.open(user('ann'), { view: 'list' }), { message: /You hold 2/ })
  bobs.view.close()
  stage.open(user('ann'), { view: 'list' })
  await stage.pass()
  for (const client of [one, two, bobs.client]) t.equal(client?.error, undefined)
})

t.test('callers who act as the agent count each by itself', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxViews: 3 } }
  const list = { view: 'list', limit: 1 } as const
  const first = [1, 2, 3].map(() => stage.open(agent, list).client)
  t.throws(() => stage.open(agent, list), { code: 'TOO_MANY_STREAMS', message: /You hold 3/ })
  const ann = stage.openOf({ key: 'ann' }, agent, list).client
  t.match(first[2]?.error, { code: 'TOO_MANY_STREAMS', message: /You hold 3/ })
  t.throws(() => stage.openOf({ key: 'ann' }, agent, list), { code: 'TOO_MANY_STREAMS', message: /You hold 1/ })
  const bob = stage.open(user('bob'), list)
  t.throws(() => stage.openOf({ key: 'ann' }, agent, list), { code: 'TOO_MANY_STREAMS', message: /You hold 1/ })
  bob.view.close()
  t.match(first[1]?.error, { code: 'TOO_MANY_STREAMS', message: /You hold 2/ })
  for (const client of [first[0], ann]) t.equal(client?.error, undefined)
})

t.test('one job may not have all: its project counts, whatever it acts as in the cluster', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxViews: 4 } }
  const list = { view: 'list', limit: 1 } as const
  const jobs = [1, 2, 3, 4].map((id) => {
    return stage.openOf({ key: 'project', userKey: `user ${id}` }, user(`gitlab:ci_job:${id}`), list).client
  })
  stage.openOf({ key: 'bob' }, user('bob'), list)
  t.same(
    jobs.map(({ error }) => error !== undefined),
    [false, false, false, true],
  )
})

t.test('a query that is refused takes no place', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxViews: 1 } }
  for (let i = 0; i < 3; i++) t.throws(() => stage.open(agent, { view: 'none' } as never), { code: 'BAD_REQUEST' })
  stage.open(agent, { view: 'list' })
})

t.test('of rows too one caller leaves some to others, also as the agent', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxRows: 400, maxRowsPerUser: 200 } }
  for (let i = 0; i < 300; i++) stage.records.put(recordOf({ uid: `p${i}` }))
  const list = { view: 'list', limit: 300 } as const
  const clients = []
  for (const key of ['ann', 'bob']) {
    clients.push(stage.openOf({ key }, agent, list).client)
    await stage.pass(1000)
  }
  t.same(
    clients.map(({ rows }) => rows.size),
    [200, 200],
  )
})

t.test('of rows too all projects of one user have one share, since each project is easily made', async (t) => {
  const stage = start(t)
  stage.options = { limits: { ...viewLimitsDefaults, maxRows: 600, maxRowsPerUser: 200 } }
  for (let i = 0; i < 300; i++) stage.records.put(recordOf({ uid: `p${i}` }))
  const clients = []
  for (const viewer of [{ key: 'one', userKey: 'eve' }, { key: 'two', userKey: 'eve' }, { key: 'bob' }]) {
    clients.push(stage.openOf(viewer, agent, { view: 'list', limit: 300 }).client)
    await stage.pass(1000)
  }
  const [one = 0, two = 0, bobs] = clients.map(({ rows }) => rows.size)
  t.equal(one + two, 200 + leastRows)
  t.equal(bobs, 200)
})

t.test('counts of nodes are for those who may list nodes', async (t) => {
  const stage = start(t)
  stage.api.rights.set('ann', [['/pods', '*']])
  stage.api.rights.set('bob', [
    ['/pods', '*'],
    ['/nodes', '*'],
  ])
  stage.records.put(pod)
  for (const uid of ['n1', 'n2']) {
    stage.records.put(recordOf({ uid, kind: kinds.node, namespace: '', verdict: 'Healthy' }))
  }
  const counts = async (name: string) => {
    const { client } = stage.open(user(name), { view: 'list', filter: { kinds: ['Node'] } })
    for (let i = 0; i < 4; i++) await stage.pass(100)
    return client.pages.get('')
  }
  t.strictSame(await counts('bob'), { order: ['n1', 'n2'], counts: { Healthy: 2 }, more: 0 })
  t.strictSame(await counts('ann'), { order: [], counts: {}, more: 0 })
})
