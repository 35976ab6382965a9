import t, { type Test } from 'tap'
import type { Query } from '../../../../../../src/proto/views-json.ts'
import { kindOf, kinds, recordOf } from '../../../../../support/views/records.ts'
import type { Right } from '../../../../../support/views/review-double.ts'
import { agent, user, ViewStage } from '../../../../../support/views/view-stage.ts'

/** Kinds and objects that a query names: who gets them, and which answer the others get. */

const widget = {
  ...kindOf('example.com/Widget', 'widgets'),
  names: { singular: 'widget', short: ['wd'], categories: [] },
}
const web = recordOf({ uid: 'web', kind: kinds.deployment, labels: new Map([['app', 'web']]), created: 5 })
const set = recordOf({ uid: 'set', kind: kinds.replicaSet, owner: web })
const pod = recordOf({ uid: 'pod', owner: set, labels: new Map([['app', 'web']]), created: 9 })
const other = recordOf({ uid: 'other', namespace: 'bank', created: 7 })
const node = recordOf({ uid: 'node', kind: kinds.node, namespace: '' })

function start(t: Test, rights: readonly Right[] = [['*/*', '*']]) {
  const stage = new ViewStage()
  stage.api.rights.set('', [['*/*', '*']])
  stage.api.rights.set('ann', rights)
  for (const record of [web, set, pod, other, node]) stage.records.put(record)
  stage.records.put(recordOf({ uid: 'wheel', kind: widget }))
  for (const kind of [...Object.values(kinds), widget]) stage.states.set(kind, {})
  t.teardown(() => stage.close())
  return stage
}

async function open(stage: ViewStage, query: Query, as = agent) {
  const { client, view } = stage.open(as, query)
  await stage.pass(50)
  await stage.pass(1100)
  return { client, view }
}

t.test('objects by words for their kinds, by name, in a namespace or anywhere', async (t) => {
  const stage = start(t)
  const cases: [objects: Query['objects'], ids: string[]][] = [
    [[{ kind: 'po' }], ['other', 'pod']],
    [[{ kind: 'pods', namespace: 'bank' }], ['other']],
    [
      [{ kind: 'deploy', name: 'web' }, { kind: 'no' }],
      ['node', 'web'],
    ],
    [[{ kind: 'deploy', name: 'web', namespace: 'bank' }], []],
    [[{ kind: 'node', name: 'node', namespace: 'shop' }], ['node']],
    [
      [{ kind: 'wd' }, { kind: 'Pod', name: 'pod' }],
      ['pod', 'wheel'],
    ],
  ]
  for (const [objects = [], ids] of cases) {
    const { client } = await open(stage, { view: 'list', objects })
    t.strictSame([...(client.order() ?? [])].sort(), ids, JSON.stringify(objects))
    t.equal(client.state?.is, 'live')
    t.equal(client.state?.refused, undefined)
  }
})

t.test('one of an older generation than is asked for is not there yet', async (t) => {
  const stage = start(t)
  const { client } = await open(stage, { view: 'list', objects: [{ kind: 'deploy', name: 'web', generation: 3 }] })
  for (const [generation, isThere] of [
    [2, false],
    [3, true],
    [4, true],
  ] as const) {
    stage.records.put(recordOf({ ...web, uid: 'web', generation, verdict: 'Healthy' }))
    await stage.pass(50)
    t.strictSame(client.order(), isThere ? ['web'] : [], `${generation}`)
  }
})

t.test('objects by labels', async (t) => {
  const stage = start(t)
  const { client } = await open(stage, { view: 'list', labels: 'app in (web)' })
  t.strictSame([...(client.order() ?? [])].sort(), ['pod', 'web'])
})

t.test('the tree around an object: what is above it and below it', async (t) => {
  const stage = start(t)
  const { client, view } = await open(stage, { view: 'object', objects: [{ kind: 'rs', name: 'set' }] })
  t.strictSame(client.order(), ['web'])
  for (const id of ['web', 'set']) view.page(id, 10)
  await stage.pass(50)
  t.strictSame([client.order('web'), client.order('set')], [['set'], ['pod']])
  stage.records.put(recordOf({ uid: 'pod-2', owner: set }))
  stage.records.put(recordOf({ uid: 'elsewhere', owner: web, kind: kinds.replicaSet }))
  await stage.pass(50)
  t.strictSame([client.order('web'), client.order('set')], [['set'], ['pod', 'pod-2']])
  stage.records.put(recordOf({ uid: 'pod', namespace: 'shop' }))
  await stage.pass(50)
  t.strictSame(client.order('set'), ['pod-2'], 'one that is owned no more is no part of it')
})

t.test('the links of an object that is asked for, opened or not, and rows of what they lead to', async (t) => {
  const placed = recordOf({ ...pod, uid: 'pod', node: 'node' })
  for (const [rights, isSeen] of [
    [[['*/*', '*']], true],
    [[['/pods', '*']], false],
  ] as const) {
    const stage = start(t, rights)
    stage.records.put(placed)
    const query: Query = { view: 'object', objects: [{ kind: 'po', name: 'pod', namespace: 'shop' }] }
    const { client, view } = await open(stage, query, user('ann'))
    for (const id of client.order() ?? []) view.page(id, 10)
    await stage.pass(100)
    for (const id of client.order('web') ?? []) view.page(id, 10)
    await stage.pass(100)
    t.strictSame(client.rows.get('pod')?.l, [['runs on', isSeen ? 'node' : '', 'Node', '', 'node']])
    t.equal(client.rows.has('node'), isSeen)
    t.notOk(
      [...client.pages.values()].some(({ order }) => order.includes('node')),
      'on no page',
    )
    stage.records.put(recordOf({ uid: 'node', kind: kinds.node, namespace: '', verdict: 'Degraded' }))
    await stage.pass(100)
    t.equal(client.rows.get('node')?.h?.[0], isSeen ? 'Degraded' : undefined, 'it is kept up')
    stage.records.put(recordOf({ ...pod, uid: 'pod' }))
    await stage.pass(100)
    t.strictSame([client.rows.get('pod')?.l, client.rows.has('node')], [undefined, false])
  }
})

t.test('by name and by age, and a page from the middle', async (t) => {
  const stage = start(t)
  for (let i = 0; i < 30; i++) stage.records.put(recordOf({ uid: `p${10 + i}`, created: 100 + i, verdict: 'Healthy' }))
  const pods = [{ kind: 'pods', namespace: 'shop' }]
  const byName = await open(stage, { view: 'list', objects: pods, sort: 'name', limit: 3 })
  t.strictSame(byName.client.order(), ['p10', 'p11', 'p12'])
  const byAge = await open(stage, { view: 'list', objects: pods, sort: 'age', limit: 3 })
  t.strictSame(byAge.client.order(), ['p39', 'p38', 'p37'])
  byAge.view.page('', 3, 10)
  await stage.pass(50)
  t.strictSame(byAge.client.pages.get(''), {
    order: ['p29', 'p28', 'p27'],
    counts: { '': 1, Healthy: 30 },
    more: 18,
    from: 10,
  })
  stage.records.put(recordOf({ uid: 'young', created: 1000 }))
  await stage.pass(50)
  t.strictSame(byAge.client.order(), ['p30', 'p29', 'p28'], 'what comes before it moves it')
  byAge.view.page('', 3, 30)
  await stage.pass(50)
  t.strictSame(byAge.client.order(), ['p10', 'pod'])
  byAge.view.page('', 3, 10_001)
  t.match(byAge.client.error, { code: 'BAD_REQUEST', message: /10000 rows at most/ })
})

t.test('who may not list it is told so, and who he is', async (t) => {
  const stage = start(t, [['/pods', 'shop']])
  const cases: [query: Query, refused: unknown][] = [
    [{ view: 'list', objects: [{ kind: 'po' }], scope: { namespaces: ['shop'] } }, undefined],
    [{ view: 'list', objects: [{ kind: 'po' }] }, undefined],
    [{ view: 'list', objects: [{ kind: 'po' }], scope: { namespaces: ['bank'] } }, [['pods', 'bank']]],
    [{ view: 'list', objects: [{ kind: 'po' }], scope: { namespaces: ['nowhere'] } }, [['pods', 'nowhere']]],
    [{ view: 'list', objects: [{ kind: 'deploy' }] }, [['deployments.apps', '']]],
    [{ view: 'list', objects: [{ kind: 'no', name: 'node' }] }, [['nodes', '']]],
    [{ view: 'tree', scope: { namespaces: ['bank'] } }, [['', 'bank']]],
    [{ view: 'tree' }, undefined],
  ]
  for (const [query, refused] of cases) {
    const { client } = await open(stage, query, user('ann'))
    t.strictSame(client.state?.refused, refused, JSON.stringify(query))
    const you = { username: 'ann', groups: ['developers'] }
    t.strictSame(client.state?.you, refused ? you : undefined)
  }
})

t.test('a kind that there is not, or not for the caller, with the nearest that there is', async (t) => {
  const stage = start(t, [['/pods', '*']])
  const unknown = async (kind: string, as = user('ann')) =>
    (await open(stage, { view: 'list', objects: [{ kind }] }, as)).client.state?.unknown
  t.strictSame(await unknown('pdos'), [['pdos', 'pods']])
  t.strictSame(await unknown('wdgets'), [['wdgets', '']], 'nothing is told of kinds that he may not list')
  t.strictSame(await unknown('widgets'), [['widgets', '']], 'nor that they are there')
  t.strictSame(await unknown('wdgets', agent), [['wdgets', 'widgets']])
  t.equal(await unknown('widgets', agent), undefined)
})

t.test('a kind that is not followed is named', async (t) => {
  const stage = start(t)
  const { client } = await open(stage, { view: 'list', objects: [{ kind: 'secrets' }, { kind: 'all' }] })
  t.strictSame(client.state?.notFollowed, ['Secret'])
})

t.test('a view of what is named is live once it is known what may be listed', async (t) => {
  const stage = start(t, [['/pods', '*']])
  const answers = Promise.withResolvers<{ status: number; body: unknown }>()
  stage.api.answer = () => answers.promise
  const { client } = await open(stage, { view: 'list', objects: [{ kind: 'po' }] }, user('ann'))
  t.match(client.state, { is: 'syncing' })
  t.equal(client.state?.refused, undefined, 'what is not known is not refused')
  stage.api.answer = undefined
  answers.resolve({ status: 201, body: { status: { allowed: true } } })
  await stage.pass(200)
  await stage.pass(50)
  t.match(client.state, { is: 'live' })
  t.strictSame([...(client.order() ?? [])].sort(), ['other', 'pod'])
})

t.test('but no longer than 10 s', async (t) => {
  const stage = start(t)
  stage.api.answer = () => new Promise(() => undefined)
  const { client } = await open(stage, { view: 'list', objects: [{ kind: 'po' }] }, user('ann'))
  t.match(client.state, { is: 'syncing' })
  await stage.pass(10_000)
  t.match(client.state, { is: 'live' })
  t.equal(client.state?.refused, undefined)
})

t.test('who asks for what is so now has denials of a while ago asked anew', async (t) => {
  const stage = start(t, [])
  const query: Query = { view: 'list', objects: [{ kind: 'po' }] }
  await open(stage, query, user('ann'))
  stage.api.rights.set('ann', [['/pods', '*']])
  const openFresh = async (fresh: boolean) => {
    const { client } = stage.openFresh(user('ann'), query, fresh)
    await stage.pass(50)
    await stage.pass(100)
    return client
  }
  await stage.pass(6000)
  t.strictSame((await openFresh(false)).state?.refused, [['pods', '']], 'a denial counts for a minute')
  const client = await openFresh(true)
  t.equal(client.state?.refused, undefined)
  t.strictSame([...(client.order() ?? [])].sort(), ['other', 'pod'])
})
