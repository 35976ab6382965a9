import t from 'tap'
import { queryText } from '../../../../../../src/kas/modules/views/api/query-text.ts'

const of = (query: unknown) => queryText(Buffer.from(JSON.stringify(query)))

t.test('what a view looks at, in words', async (t) => {
  const cases: readonly [query: object, text: string][] = [
    [{ view: 'tree' }, 'tree'],
    [{ view: 'tree', scope: { namespaces: ['shop', 'web'] } }, 'tree in shop, web'],
    [{ view: 'list', objects: [{ kind: 'deploy' }], scope: { namespaces: ['shop'] } }, 'list deploy in shop'],
    [{ view: 'object', objects: [{ kind: 'Pod', namespace: 'shop', name: 'web-0' }] }, 'object Pod/shop/web-0'],
    [
      { view: 'list', filter: { kinds: ['Pod'], verdicts: ['Degraded'], text: 'x' } },
      'list Pod text x verdict Degraded',
    ],
    [
      { view: 'tree', scope: { environment: '1/production' }, labels: 'app=web' },
      'tree environment 1/production labels app=web',
    ],
    [{ view: 'tree', scope: { application: 'shop' } }, 'tree application shop'],
    [{ view: 'graph', graph: { namespaces: { names: ['shop'] } } }, 'graph in shop'],
    [
      { view: 'list', objects: Array.from({ length: 9 }, (_, i) => ({ kind: `k${i}` })) },
      'list k0, k1, k2, k3, k4 and 4 more',
    ],
  ]
  for (const [query, text] of cases) t.equal(of(query), text)
})

t.test('bad input: what is no query, and what is long', async (t) => {
  for (const query of [null, 7, [], 'x', { view: 7, scope: 'x', filter: 3, objects: [null, 1, { kind: {} }] }])
    t.equal(of(query), 'a view')
  t.equal(queryText(Buffer.from('{')), 'a view')
  t.ok(of({ view: 'x'.repeat(10_000), labels: 'y'.repeat(10_000) }).length <= 301)
})
