import t from 'tap'
import { readQuery } from '../../../../../../src/agentk/modules/views/tree/query.ts'

const read = (query: unknown) => readQuery(Buffer.from(typeof query === 'string' ? query : JSON.stringify(query)))

t.test('a query is read whole', async (t) => {
  const query = read({
    view: 'list',
    scope: { namespaces: ['shop', 'bank', 'shop'], environment: '1/production', application: 'web' },
    filter: { text: 'FronT', kinds: ['apps/Deployment'], verdicts: ['Degraded', ''] },
    limit: 500,
  })
  t.match(query, { view: 'list', limit: 500, environment: '1/production', application: 'web', text: 'front' })
  t.strictSame(query.namespaces, new Set(['bank', 'shop']))
  t.strictSame(query.kinds, new Set(['apps/Deployment']))
  t.strictSame(query.verdicts, new Set(['Degraded', '']))
})

t.test('what is not said is not asked for', async (t) => {
  const query = read({ view: 'tree' })
  t.match(query, { limit: 100, environment: '', application: '', text: '' })
  t.equal(query.namespaces, undefined)
  t.equal(read({ view: 'tree', scope: { namespaces: [] }, limit: 7 }).key, query.key)
  t.not(read({ view: 'list' }).key, query.key)
})

t.test('a long one has a short key, and order is no part of it', async (t) => {
  const objects = Array.from({ length: 500 }, (_, i) => ({ kind: 'Pod', namespace: 'shop', name: `web-${i}` }))
  const one = read({ view: 'list', objects })
  t.ok(one.key.length < 100)
  t.equal(read({ view: 'list', objects, sort: 'age' }).key, one.key)
  t.not(read({ view: 'list', objects: objects.slice(1) }).key, one.key)
})

t.test('what is wrong is refused, with what is allowed', async (t) => {
  const refusals: [unknown, RegExp][] = [
    ['{', /not JSON/],
    ['[]', /the query is not an object/],
    ['null', /not an object/],
    [{ view: 'agents' }, /"view" is one of tree, list, environments, events, object/],
    [{ view: 'tree', agent: '1' }, /unknown key "agent"; allowed: view, scope, filter, objects, labels, sort, limit/],
    [{ view: 'tree', scope: { namespace: 'a' } }, /"scope" has the unknown key "namespace"; allowed: namespaces, env/],
    [{ view: 'tree', filter: { name: 'a' } }, /"filter" has the unknown key "name"; allowed: text, kinds, verdicts/],
    ['{"view":"tree","__proto__":{}}', /unknown key "__proto__"/],
    [{ view: 'tree', scope: [] }, /"scope" is not an object/],
    [{ view: 'tree', scope: { namespaces: 'shop' } }, /"namespaces" is not a list of texts/],
    [{ view: 'tree', scope: { environment: 'production' } }, /<project id>\/<slug>/],
    [{ view: 'tree', filter: { verdicts: ['Bad'] } }, /"verdicts" is one of Healthy, /],
    [{ view: 'tree', filter: { text: 1 } }, /"text" is not a text/],
    [{ view: 'tree', limit: 0 }, /from 1 to 500/],
    [{ view: 'tree', limit: 501 }, /from 1 to 500/],
    [{ view: 'tree', limit: 1.5 }, /from 1 to 500/],
    [{ view: 'events', scope: { application: 'a' } }, /events have a scope of "namespaces"/],
    [{ view: 'tree', filter: { text: 'x'.repeat(64 * 1024) } }, /65536 bytes at most/],
    [{ view: 'list', objects: [] }, /"objects" is a list of 1 to 500/],
    [{ view: 'list', objects: Array.from({ length: 501 }, () => ({ kind: 'po' })) }, /1 to 500/],
    [{ view: 'list', objects: [{ name: 'web' }] }, /has no "kind"/],
    [{ view: 'list', objects: [{ kind: 'po', uid: '1' }] }, /one of "objects" has the unknown key "uid"/],
    [{ view: 'list', objects: [{ kind: 'po', generation: -1 }] }, /"generation" is a whole number/],
    [{ view: 'list', objects: [{ kind: 'x'.repeat(600) }] }, /too long/],
    [{ view: 'list', labels: 'app in' }, /"labels" is a selector/],
    [{ view: 'list', labels: Array.from({ length: 33 }, (_, i) => `a${i}`).join() }, /"labels" is a selector/],
    [{ view: 'list', sort: 'size' }, /"sort" is one of name, age, since/],
    [{ view: 'object' }, /the view "object" is of "objects"/],
    [{ view: 'events', sort: 'age' }, /events have a scope/],
  ]
  for (const [query, expected] of refusals) {
    t.throws(() => read(query), { code: 'BAD_REQUEST', message: expected }, JSON.stringify(query).slice(0, 60))
  }
  const long = `k${'y'.repeat(5000)}`
  t.throws(() => read({ view: 'tree', [long]: 1 }), { message: /"k{1}y{39}…"/ })
})
