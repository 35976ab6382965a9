import t, { type Test } from 'tap'
import '../../../../../../src/agentk/modules/views/view/graph-selection.ts' // otherwise loaded with the first graph
import type { ObjectRecord } from '../../../../../../src/agentk/modules/views/store/record.ts'
import { viewsBounds } from '../../../../../../src/proto/views-json.ts'
import { GraphOfUpdates } from '../../../../../support/graph/graph-of-updates.ts'
import { defaultRequest } from '../../../../../support/graph/strict-graph.ts'
import { kindOf, kinds, type RecordParts, recordOf } from '../../../../../support/views/records.ts'
import type { Right } from '../../../../../support/views/review-double.ts'
import { agent, user, ViewStage } from '../../../../../support/views/view-stage.ts'

const namespace = kindOf('Namespace', 'namespaces', false)
const secret = kindOf('Secret', 'secrets')
const everything = { queries: [{ include: {} }] }
const all: readonly Right[] = [['*/*', '*']]

function start(t: Test, records: readonly ObjectRecord[] = []) {
  const stage = new ViewStage()
  t.teardown(() => stage.close())
  stage.api.rights.set('', all)
  for (const record of records) stage.records.put(record)
  for (const kind of [...Object.values(kinds), namespace]) stage.states.set(kind, {})
  const open = async (graph: object, caller = agent) => {
    const { client, view } = stage.open(caller, { view: 'graph', graph })
    const seen = new GraphOfUpdates()
    await pass()
    return {
      client,
      view,
      graph: () => seen.take(client.texts),
    }
  }
  /** Passes enough time for updates and graphs to have their turn. */
  const pass = async (ms = 60) => {
    for (let i = 0; i < 4; i++) await stage.pass(ms / 4)
  }
  return { stage, open, pass, put: (parts: RecordParts) => stage.records.put(recordOf(parts)) }
}

const web = recordOf({ uid: 'd', name: 'web', kind: kinds.deployment })
const set = recordOf({ uid: 's', name: 'web-1', kind: kinds.replicaSet, owner: web })
const settings = recordOf({ uid: 'c', name: 'settings', kind: kinds.configMap })
const names = (relation: string, kind: string, name: string) => ({ relation, kind, namespace: 'shop', name })
const pod = recordOf({
  uid: 'p',
  name: 'web-1-a',
  owner: set,
  references: [
    names('reads', 'ConfigMap', 'settings'),
    names('mounts', 'Secret', 'key'),
    names('mounts', 'ConfigMap', 'none'),
  ],
})

t.test('vertices, owners and references; what is not there, and what nobody knows', async (t) => {
  const { open } = start(t, [web, set, settings, pod, recordOf({ uid: 'other', namespace: 'kube-system' })])
  const { graph, client } = await open(defaultRequest)
  t.strictSame(graph().drawn(), [
    'pods/web-1-a -or> replicasets/web-1',
    'pods/web-1-a -r> configmaps/none !',
    'pods/web-1-a -r> configmaps/settings',
    'pods/web-1-a -r> secrets/key',
    'replicasets/web-1 -or> deployments/web',
  ])
  t.strictSame(graph().names('pods'), ['web-1-a'], 'another namespace is not asked for')
  t.ok(graph().warnings.includes('unfollowed: Secret is not followed by the agent'))
  t.equal(client.updates.length, 1)
})

t.test('a graph of nothing is told, too', async (t) => {
  const { open } = start(t)
  const { graph } = await open(everything)
  t.equal(graph().answers > 0, true)
  t.equal(graph().vertices.size, 0)
})

t.test('what comes, changes and goes', async (t) => {
  const others = [kinds.node, kinds.replicaSet].map((kind) =>
    recordOf({ uid: kind.key, name: 'far', kind, namespace: kind.isNamespaced ? 'far' : '' }),
  )
  const { open, pass, put, stage } = start(t, [web, set, ...others])
  const { graph } = await open({ ...everything, namespaces: { names: ['shop'] } })
  put({ uid: 'p', name: 'a', owner: set })
  await pass()
  t.match(graph().drawn(), ['pods/a -or> replicasets/web-1', 'replicasets/web-1 -or> deployments/web'])
  put({ uid: 'p', name: 'a', owner: set, node: 'n1' })
  await pass()
  t.ok(graph().drawn().includes('pods/a -r> nodes/n1 !'))
  put({ uid: 'n', name: 'n1', namespace: '', kind: kinds.node })
  await pass()
  t.ok(graph().drawn().includes('pods/a -r> nodes/n1'), 'it is there now')
  stage.records.delete('s')
  await pass()
  t.ok(graph().drawn().includes('pods/a -or> replicasets/web-1 !'))
  put({ uid: 's2', name: 'web-1', kind: kinds.replicaSet })
  await pass()
  t.ok(graph().drawn().includes('pods/a -or> replicasets/web-1 !'), 'another one of the name is not its owner')
  stage.records.delete('p')
  await pass()
  t.strictSame(graph().drawn(), [])
  t.strictSame(graph().names('nodes'), ['far', 'n1'])
  t.strictSame(graph().names('replicasets'), ['web-1'])
})

t.test('a change that draws nothing otherwise is none', async (t) => {
  const { open, pass, put } = start(t, [web, set])
  const { client } = await open(everything)
  const before = client.updates.length
  put({ uid: 's', name: 'web-1', kind: kinds.replicaSet, owner: web, verdict: 'Degraded' })
  put({ uid: 's', name: 'web-1', kind: kinds.replicaSet, owner: web, labels: new Map([['a', 'b']]) })
  await pass()
  t.equal(client.updates.length, before)
})

// wire: graph.strict
t.test('1,000 Pods come and go: the strictest client never ends', async (t) => {
  const { open, pass, put, stage } = start(t, [web, set, settings])
  const { graph } = await open(defaultRequest)
  const references = [names('reads', 'ConfigMap', 'settings'), names('mounts', 'ConfigMap', 'none')]
  for (let from = 0; from < 1000; from += 100) {
    for (let i = from; i < from + 100; i++) {
      put({ uid: `p${i}`, name: `p${i}`, owner: set, references })
      if (i % 10 === 0) await pass(8)
    }
    await pass()
    t.equal(graph().names('pods').length, 100)
    for (let i = from; i < from + 100; i++) {
      stage.records.delete(`p${i}`)
      if (i % 9 === 0) await pass(8)
    }
    await pass()
    t.strictSame(graph().names('pods'), [])
  }
  t.strictSame(graph().names('configmaps'), ['settings'], 'what is named by none any more is gone')
  t.ok(graph().actions > 5000)
})

// wire: graph.rights
t.test('what a caller may not list is as if it were not there: equal bytes', async (t) => {
  const see = async (records: readonly ObjectRecord[]) => {
    const { stage, open, pass } = start(t, records)
    stage.api.rights.set('ada', [
      ['/pods', 'shop'],
      ['/configmaps', 'shop'],
    ])
    const opened = await Promise.all(
      [
        defaultRequest,
        everything,
        {
          ...everything,
          roots: { object_selector_expressions: ["resource == 'pods'"], ignore_arc_direction: ['or', 'r'] },
        },
      ].map((graph) => open(graph, user('ada'))),
    )
    await pass(2000)
    return opened.map(({ client, graph }) => ({ texts: client.texts, drawn: graph().drawn() }))
  }
  const key = recordOf({ uid: 'k', name: 'key', kind: secret })
  const elsewhere = recordOf({
    uid: 'e',
    namespace: 'bank',
    references: [{ ...names('reads', 'ConfigMap', 'settings') }],
  })
  const one = await see([pod, settings])
  const other = await see([
    web,
    key,
    set,
    pod,
    elsewhere,
    settings,
    recordOf({ uid: 'ns', name: 'shop', namespace: '', kind: namespace }),
  ])
  t.strictSame(one, other)
  t.ok(one[0]?.drawn.includes('pods/web-1-a -or> replicasets/web-1'), 'what an object says itself is told')
  t.ok(one[0]?.drawn.includes('pods/web-1-a -r> configmaps/none !'), 'what may be listed is known not to be there')
})

t.test('kinds of others: by their name where they may not be listed', async (t) => {
  const widget = kindOf('example.com/Widget', 'widgetses')
  const owner = recordOf({ uid: 'w', name: 'w', kind: widget })
  const { stage, open, pass } = start(t, [owner, recordOf({ uid: 'p', name: 'p', owner })])
  stage.states.set(widget, {})
  stage.api.rights.set('ada', [['/pods', 'shop']])
  const [mine, ours] = [await open(everything, user('ada')), await open(everything)]
  await pass(2000)
  t.strictSame(mine.graph().drawn(), ['pods/p -or> widgets/w'])
  t.strictSame(ours.graph().drawn(), ['pods/p -or> widgetses/w'])
})

t.test('rights that are taken and given', async (t) => {
  const { stage, open, pass } = start(t, [web, set, pod, settings])
  stage.api.rights.set('ada', [
    ['/pods', 'shop'],
    ['apps/replicasets', 'shop'],
  ])
  const { graph } = await open(
    { queries: [{ include: { resource_selector_expression: "resource in ['pods', 'replicasets']" } }] },
    user('ada'),
  )
  await pass(2000)
  t.strictSame(graph().names('replicasets'), ['web-1'])
  t.strictSame(graph().names('pods'), ['web-1-a'])
  stage.api.rights.set('ada', [['apps/replicasets', 'shop']])
  await pass(61_000)
  await pass(2000)
  t.strictSame([...graph().vertices], ['apps v1 replicasets shop web-1'])
  t.ok(graph().warnings.some((text) => text.startsWith('forbidden: pods cannot be listed')))
  stage.api.rights.set('ada', [['*/*', '*']])
  await pass(61_000)
  await pass(2000)
  t.strictSame(graph().drawn(), ['pods/web-1-a -or> replicasets/web-1'])
})

t.test('namespaces by name, field, label and expression', async (t) => {
  const place = (name: string, team: string) =>
    recordOf({ uid: `ns-${name}`, name, namespace: '', kind: namespace, labels: new Map([['team', team]]) })
  const { stage, open, pass } = start(t, [
    place('a', 'one'),
    place('b', 'two'),
    ...['a', 'b', 'c'].map((name) => recordOf({ uid: `p-${name}`, name: `in-${name}`, namespace: name })),
  ])
  stage.api.rights.set('ada', [['/pods', '*']])
  const pods = async (namespaces: object, caller = agent) => {
    const { graph } = await open({ ...everything, namespaces }, caller)
    await pass(2000)
    return graph().names('pods').join()
  }
  t.equal(await pods({ names: ['a', 'c'] }), 'in-a,in-c')
  t.equal(await pods({ label_selector: 'team=one' }), 'in-a')
  t.equal(await pods({ field_selector: 'metadata.name!=a' }), 'in-b,in-c')
  t.equal(await pods({ object_selector_expression: "labels.team == 'two'" }), 'in-b')
  t.equal(
    await pods({ object_selector_expression: "name in ['b', 'c'] && group == '' && resource == 'namespaces'" }),
    'in-b,in-c',
  )
  t.equal(await pods({ label_selector: 'team=one' }, user('ada')), '', 'who may not list namespaces knows no labels')
  t.equal(await pods({ object_selector_expression: "name != 'a'" }, user('ada')), 'in-b,in-c')
  const { graph } = await open({ ...everything, namespaces: { label_selector: 'team=one' } })
  stage.records.put(place('b', 'one'))
  stage.records.put(place('a', 'two'))
  await pass(2000)
  t.equal(graph().names('pods').join(), 'in-b', 'they are compared again when they change')
  t.equal(graph().names('namespaces').join(), 'b', 'a Namespace is where it says')
})

t.test('kinds: the first query that is about one decides', async (t) => {
  const { open } = start(t, [web, set, pod, settings])
  const kindsOf = async (...queries: object[]) => {
    const { graph } = await open({ queries })
    return [...new Set([...graph().vertices].map((text) => text.split(' ')[2]))].sort().join()
  }
  const of = (expression: string) => ({ resource_selector_expression: expression })
  t.equal(
    await kindsOf({ exclude: of("group == 'apps'") }, { include: of("resource != 'secrets'") }),
    'configmaps,pods',
  )
  t.equal(await kindsOf({ include: of("resource == 'pods'") }, { exclude: of("resource == 'pods'") }), 'pods')
  t.equal(await kindsOf({ include: of('!namespaced') }), '')
  t.equal(await kindsOf({ include: of("resource in ['deployments']") }), 'deployments')
  t.equal(
    await kindsOf(
      { include: { ...of("resource == 'pods'"), object: { object_selector_expression: "name == 'x'" } } },
      { include: {} },
    ),
    'configmaps,deployments,replicasets',
    'a kind has one query, whatever is selected of it',
  )
})

t.test('objects by label, field and expression', async (t) => {
  const { open } = start(t, [
    recordOf({ uid: 'a', labels: new Map([['app', 'one']]) }),
    recordOf({ uid: 'b', labels: new Map([['app', 'two']]), references: [names('reads', 'Pod', 'none')] }),
    recordOf({ uid: 'c' }),
  ])
  const pods = async (object: object) => {
    const { graph } = await open({ queries: [{ include: { object } }] })
    return graph().names('pods').join()
  }
  t.equal(await pods({ label_selector: 'app in (one, two)' }), 'a,b', 'of what is not there nobody knows labels')
  t.equal(await pods({ field_selector: 'metadata.name=a,metadata.namespace=shop' }), 'a')
  t.equal(
    await pods({ object_selector_expression: "labels.app == 'two'" }),
    'b',
    'without the label there is no answer',
  )
  t.equal(await pods({ object_selector_expression: "!('app' in labels)" }), 'c')
  t.equal(await pods({ object_selector_expression: 'name' }), '', 'what is no truth is none')
  t.equal(await pods({ object_selector_expression: 'namespace == \'shop\' && name != "namespace"' }), 'a,b,c')
  t.equal(await pods({ object_selector_expression: "'namespace' == namespace" }), '')
})

t.test('roots: what is reached from them, and no more', async (t) => {
  const { open, pass, put } = start(t, [web, set, pod, settings, recordOf({ uid: 'q', name: 'alone' })])
  const reached = async (expressions: readonly string[], ...both: string[]) => {
    const roots = { object_selector_expressions: expressions, ignore_arc_direction: both }
    const { graph } = await open({ ...everything, roots })
    return [...graph().vertices]
      .map((text) => text.split(' ')[4])
      .sort()
      .join()
  }
  const ofSets = "resource == 'replicasets'"
  t.equal(await reached([ofSets]), 'web,web-1')
  t.equal(await reached([ofSets], 'or'), 'key,none,settings,web,web-1,web-1-a', 'the other way, and on from there')
  t.equal(await reached(["name == 'settings'"], 'or'), 'settings')
  t.equal(await reached(["name == 'settings'"], 'r'), 'key,none,settings,web,web-1,web-1-a')
  t.equal(await reached(["name == 'nobody'", "name == 'alone'"]), 'alone', 'one of them is enough')
  const { graph } = await open({
    ...everything,
    roots: { object_selector_expressions: [ofSets], ignore_arc_direction: ['or'] },
  })
  put({ uid: 'p2', name: 'new', owner: set })
  await pass()
  t.ok(graph().names('pods').includes('new'))
})

t.test('owners in a ring, of themselves, of two names: each arc once', async (t) => {
  const ring = [
    recordOf({ uid: '1', name: 'x1', owner: { uid: '2', kind: 'Pod', name: 'x2' } }),
    recordOf({ uid: '2', name: 'x2', owner: { uid: '1', kind: 'Pod', name: 'x1' } }),
    recordOf({ uid: '3', name: 'x3', owner: { uid: '3', kind: 'Pod', name: 'x3' } }),
    recordOf({
      uid: '4',
      name: 'x4',
      owner: { uid: 'gone', kind: 'Pod', name: 'x1' },
      otherOwners: [
        { uid: '1', kind: 'Pod', name: 'x1' },
        { uid: 'gone', kind: 'Pod', name: 'x2' },
      ],
    }),
  ]
  const { open } = start(t, ring)
  const { graph } = await open({
    ...everything,
    roots: { object_selector_expressions: ['true'], ignore_arc_direction: ['or'] },
  })
  t.strictSame(graph().drawn(), [
    'pods/x1 -or> pods/x2',
    'pods/x2 -or> pods/x1',
    'pods/x3 -or> pods/x3',
    'pods/x4 -or> pods/x1',
    'pods/x4 -or> pods/x2 !',
  ])
})

t.test('names that no client can draw are left out, and so is what would be too long', async (t) => {
  const odd = ['a"b', 'a\\', '$x', 'a\nb', 'a b', '\u202e', '`', '\0', 'x'.repeat(254)]
  const owners = odd.map((name) => ({ uid: name, kind: 'Pod', name }))
  const long = [`example.com/${'K'.repeat(253)}s`, 'a"/K'].map((kind) => ({ uid: kind, kind, name: 'x' }))
  const records = [
    recordOf({
      uid: 'p',
      name: 'p',
      owner: { uid: 'g', kind: 'Pod', name: 'good' },
      otherOwners: [...owners, ...long],
    }),
    ...odd.map((name, i) => recordOf({ uid: `u${i}`, name, references: [names('reads', 'Pod', 'p')] })),
  ]
  const { open } = start(t, records)
  const { graph } = await open(everything)
  t.strictSame(graph().drawn(), ['pods/p -or> pods/good !'])
  t.equal(graph().vertices.size, 2)
})

t.test('more than may be shown: the first by name, and it is said', async (t) => {
  const { maxVertices, maxArcs } = viewsBounds
  const many = Array.from({ length: maxVertices + 10 }, (_, i) =>
    recordOf({
      uid: `u${i}`,
      name: `p${String(i).padStart(5, '0')}`,
      references: ['a', 'b', 'c'].map((name) => names('reads', 'ConfigMap', name)),
    }),
  )
  const { open, pass, stage } = start(t, [...many].reverse())
  const { graph, client } = await open({
    queries: [{ include: { resource_selector_expression: "resource == 'pods'" } }],
  })
  await pass(4000)
  t.equal(graph().vertices.size, maxVertices)
  t.equal(graph().names('pods').at(-1), 'p04999')
  t.match(graph().warnings.at(-1), /^limit: there are more than 5000 objects/)
  t.ok(client.texts.every((text) => text.length <= viewsBounds.maxUpdateBytes))
  stage.records.delete('u0')
  await pass(4000)
  t.equal(graph().names('pods').at(-1), 'p05000')
  const arcs = await open(everything)
  await pass(4000)
  t.ok(arcs.graph().arcs.size <= maxArcs)
  t.ok(arcs.graph().warnings.some((text) => text.startsWith('limit: ')))
})

t.test('one user leaves room for others', async (t) => {
  const many = Array.from({ length: 30 }, (_, i) =>
    recordOf({ uid: `u${i}`, name: `p${i}`, references: [names('reads', 'Pod', 'p0')] }),
  )
  const { stage, open, pass } = start(t, many)
  const { viewLimitsDefaults } = await import('../../../../../../src/agentk/modules/views/view/view-limits.ts')
  stage.options = { limits: { ...viewLimitsDefaults, maxLinks: 100, maxLinksPerUser: 40 } }
  stage.api.rights.set('ada', all)
  stage.api.rights.set('bob', all)
  const [one, two] = [await open(everything, user('ada')), await open(everything, user('ada'))]
  await pass(2000)
  t.equal(one.graph().arcs.size, 30)
  t.equal(two.graph().arcs.size, 10)
  t.ok(two.graph().warnings.some((text) => text.startsWith('limit: ')))
  const other = await open(everything, user('bob'))
  await pass(2000)
  t.equal(other.graph().arcs.size, 30)
})

t.test('a Namespace that goes takes what stands in it along, and gives it back', async (t) => {
  const shop = recordOf({ uid: 'ns', name: 'shop', namespace: '', kind: namespace })
  const { stage, open, pass } = start(t, [shop, web, set, pod])
  const { graph } = await open(everything)
  const before = graph().drawn()
  stage.records.delete('ns')
  await pass()
  t.strictSame(graph().drawn(), before)
  t.strictSame(graph().names('namespaces'), [])
})

t.test('what cannot be answered is refused, by name', async (t) => {
  const { open } = start(t)
  const refused = async (graph: object) => {
    try {
      const { client } = await open(graph)
      return client.error?.message ?? 'not refused'
    } catch (error) {
      return (error as Error).message
    }
  }
  const object = (of: object) => ({ queries: [{ include: { object: of } }] })
  const kept = 'Bad request: obj, annotations and json_path are not kept here'
  t.equal(await refused(object({ json_path: '{.spec}' })), kept)
  t.equal(await refused(object({ object_selector_expression: 'has(obj.spec)' })), kept)
  t.equal(await refused(object({ object_selector_expression: "'a' in annotations" })), kept)
  t.equal(await refused({ ...everything, namespaces: { object_selector_expression: "annotations['a'] == 'b'" } }), kept)
  t.equal(await refused({ ...everything, roots: { object_selector_expressions: ['obj.spec.x == 1'] } }), kept)
  t.match(await refused(object({ field_selector: 'status.phase=Running' })), /metadata.name and metadata.namespace/)
  t.match(await refused(object({ label_selector: 'a=b=c' })), /"label_selector" is a selector/)
  t.match(
    await refused(object({ object_selector_expression: 'name ==' })),
    /"name ==": .*found = but expecting end of input/,
  )
  t.match(await refused(object({ object_selector_expression: 'secret == 1' })), /"secret" is not known; known: group,/)
  t.match(
    await refused({ queries: [{ include: { resource_selector_expression: 'name == 1' } }] }),
    /"name" is not known/,
  )
  t.match(await refused({}), /"queries" includes nothing/)
  t.match(await refused({ queries: [{ exclude: {} }] }), /includes nothing/)
  t.match(await refused({ queries: [{}] }), /to "include" or to "exclude"/)
  t.match(await refused({ queries: [{ include: {}, exclude: {} }] }), /to "include" or to "exclude"/)
  t.match(await refused({ ...everything, watch: 1 }), /unknown key "watch"/)
  t.match(await refused({ ...everything, roots: { object_selector_expressions: [1] } }), /not a list of texts/)
  t.match(await refused({ ...everything, roots: { ignore_arc_direction: ['x'] } }), /is one of or, r, t/)
  t.match(await refused({ queries: Array(33).fill({ include: {} }) }), /a list of at most 32/)
  t.match(
    await refused({ ...everything, namespaces: { names: Array.from({ length: 501 }, (_, i) => `n${i}`) } }),
    /500 at most/,
  )
  t.match(
    await refused(object({ object_selector_expression: `name == '${'x'.repeat(5000)}'` })),
    /4096 characters at most/,
  )
  t.match(await refused(object({ object_selector_expression: `${'('.repeat(2000)}` })), /Bad request: /)
  t.match(
    await refused(object({ object_selector_expression: 'labels.exists(a, labels.exists(b, a != b))' })),
    /macros more than 1 deep/,
  )
  const expression = (text: string) => refused(object({ object_selector_expression: text }))
  t.match(await expression(`name == '${'x'.repeat(1100)}'`), /has 1024 characters at most/)
  t.match(await expression(`${'('.repeat(500)}name == 'x'${')'.repeat(500)}`), /Bad request: |not refused/)
  t.match(
    await expression(Array(20).fill('labels.exists(k, k == name)').join('||')),
    /fewer parts, macros and patterns/,
  )
  t.match(await expression("name.matches('a{1000}')"), /matches takes a text of 64 characters at most, without {/)
  t.match(await expression('name.matches(namespace)'), /matches takes a text/)
  t.match(await expression("name.matches('^web-[a-z]+$') && labels.exists(k, k.startsWith('app'))"), 'not refused')
})
