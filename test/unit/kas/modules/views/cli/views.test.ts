import t from 'tap'
import type { Query, ViewsRequest } from '../../../../../../src/proto/views-json.ts'
import { checkedOutput } from '../../../../../support/output-schema.ts'
import { startViewsServer } from './views-server.ts'

const live = { is: 'live', since: 0 } as const
const created = 1_763_790_000_000 - 300_000
const deployment = {
  u: 'd1',
  k: 'apps/Deployment',
  ns: 'shop',
  n: 'web',
  t: created,
  h: ['Degraded', 'Failed', 'Degraded'] as const,
  why: ['', '', 'Deployment "web" exceeded its progress deadline'] as const,
  f: ['2/3 ready'],
  c: 2,
}
const page = (order: string[], counts = {}, more = 0) => ({ order, counts, more })

t.test('a tree opens what has children, and ends once all of it is there', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('tree', '-n', 'shop')
  const one = await viewer()
  t.equal(one.authorization, 'Bearer pat:42:secret')
  t.strictSame(await one.request(({ type }) => type === 'open'), {
    type: 'open',
    id: 1,
    agent: '42',
    fresh: true,
    view: 'tree',
    scope: { namespaces: ['shop'] },
    limit: 100,
  })
  one.update({ seq: 1, rows: [deployment], pages: { '': page(['d1'], { Degraded: 1 }) }, state: live })
  t.strictSame(await one.request(({ type }) => type === 'page'), { type: 'page', id: 1, node: 'd1', limit: 50 })
  t.equal(said.stdout, '', 'not before')
  const pod = (u: string, n: string) => ({
    u,
    k: 'Pod',
    ns: 'shop',
    n,
    p: 'd1',
    h: ['Healthy', 'Current', 'Healthy'] as const,
  })
  one.update({
    seq: 2,
    rows: [pod('p1', 'web-1'), pod('p2', 'web-\u001b[2J')],
    pages: { d1: page(['p1', 'p2'], {}, 7) },
  })
  t.equal(await code, 0)
  t.equal(
    said.stdout,
    [
      '✗ degraded  Deployment/web  2/3 ready  5m  Deployment "web" exceeded its progress deadline\n',
      '├─ ✓ Pod/web-1\n',
      '├─ ✓ Pod/web-?[2J\n',
      '└─ … 7 more\n',
    ].join(''),
  )
})

t.test('a tree of all counts on one line what has neither verdict nor children', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const quiet = (k: string, n: string) => ({ u: n, k, n })
  const rows = [
    { u: 'd', k: 'Pod', ns: 'shop', n: 'web', h: ['Healthy', 'Current', 'Healthy'] as const },
    { u: 'b::Role', k: 'Role', n: '', c: 60 },
    ...['a', 'b', 'c'].map((name) => quiet('ServiceAccount', name)),
    { u: 'o', k: 'Own', n: 'own', c: 3 },
    ...Array.from({ length: 8 }, (_, i) => quiet(`Kind${i}`, `k${i}`)),
  ]
  const order = rows.map(({ u }) => u)
  for (const [argv, expected] of [
    [
      ['tree'],
      '✓ shop/Pod/web\n· Own/own\n' +
        '· folded (-v): 60 Role, 3 ServiceAccount, 1 Kind0, 1 Kind1, 1 Kind2, 1 Kind3, 1 Kind4, 1 Kind5, and 2 kinds more\n' +
        '… 5 more\n',
    ],
    [['tree', '-n', 'shop'], /· ServiceAccount\/b\n/],
  ] as const) {
    const { said, code } = run(...argv)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, rows, pages: { '': page(order, {}, 5), o: page([]) }, state: live })
    t.equal(await code, 0)
    t.match(said.stdout, expected)
  }
})

t.test('a node that is gone is closed, and asked for again once it is back', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('tree', '--watch')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.update({ seq: 1, rows: [deployment], pages: { '': page(['d1']) }, state: live })
  await one.request(({ type }) => type === 'page')
  one.update({ seq: 2, pages: { d1: page([]) } })
  one.update({ seq: 3, gone: ['d1'], pages: { '': page([]), d1: null } })
  const isClosed = (request: ViewsRequest) => request.type === 'page' && request.node === 'd1' && request.limit === 0
  await one.request(isClosed)
  one.update({ seq: 4, rows: [deployment], pages: { '': page(['d1']) } })
  const back = () => one.requests.filter(({ type }) => type === 'page').length === 3
  await one.request(back)
  t.match(one.requests.at(-1), { type: 'page', node: 'd1', limit: 50 })
  one.error('FORBIDDEN', 'enough')
  t.equal(await code, 1)
  t.match(
    said.stderr,
    /nothing is found that you may list and agentk follows: kas views role prints /,
    'what is empty says so',
  )
})

const started = {
  u: 'e1',
  ns: 'shop',
  about: ['Pod', 'web-1', 'p1'],
  type: 'Normal',
  reason: 'Started',
  text: 'Started container\u001b[2J',
  count: 2,
  at: 1_763_790_000_000 - 5000,
} as const
const scheduled = { ...started, u: 'e2', ns: 'bank', reason: 'Scheduled', text: '', count: 1, at: started.at - 600_000 }
const isPage = ({ type }: ViewsRequest) => type === 'page'

t.test('events of any type, as kubectl has them: the latest first', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'events')
  const one = await viewer()
  t.match(await one.request(isPage), { node: 'n:', limit: 500 })
  t.match(one.requests[0], { type: 'open', view: 'events', limit: 1 })
  one.update({ seq: 1, pages: { '': page([]) }, state: live })
  one.update({ seq: 2, events: [scheduled, started], pages: { 'n:': page(['e1', 'e2'], {}, 3) } })
  t.equal(await code, 0)
  t.equal(
    said.stdout,
    [
      'NAMESPACE  LAST SEEN  TYPE    REASON     COUNT  OBJECT     MESSAGE\n',
      'shop       5s         Normal  Started    2      Pod/web-1  Started container?[2J\n',
      'bank       10m        Normal  Scheduled  1      Pod/web-1\n',
      '… 3 more, older or not read\n',
    ].join(''),
  )
})

t.test('events on a terminal that is narrow have their whole message below, whatever the names are', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  const text = 'Back-off pulling image "registry.example.com/team/settlement-worker:2.14.1": not found'
  const name = 'settlement-worker-7f6d9c5b8-x7k2p'
  const failed = { ...started, about: ['Pod', name, 'p9'], reason: 'Failed', text } as const
  for (const columns of [80, 200]) {
    const { said, code } = runWith(
      { terminal: { columns, rows: 24 }, env: { NO_COLOR: '1' } },
      'get',
      'events',
      '-n',
      'shop',
    )
    const one = await viewer()
    await one.request(isPage)
    one.update({ seq: 1, pages: { '': page([]) }, state: live })
    one.update({ seq: 2, events: [failed], pages: { 'n:shop': page(['e1']) } })
    t.equal(await code, 0)
    const plain = said.stdout
    t.match(plain.replaceAll(/\s+/g, ' '), text)
    t.match(plain, columns === 80 ? / {2}COUNT\n/ : / {2}OBJECT +MESSAGE\n/)
    t.match(plain, `Pod/${name}`)
    t.notMatch(plain, '…')
  }
})

t.test('events of some namespaces, one of which is not to be listed', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'ev', '-n', 'bank', '-n', 'shop', '-n', 'hidden', '-o', 'json')
  const one = await viewer()
  await one.request((request) => request.type === 'page' && request.node === 'n:hidden')
  t.match(one.requests[0], { scope: { namespaces: ['bank', 'shop', 'hidden'] } })
  one.update({
    seq: 1,
    pages: { '': page([]), 'n:hidden': null, 'n:bank': page(['e2']) },
    events: [scheduled],
    state: live,
  })
  one.update({ seq: 2, pages: { 'n:shop': page(['e1']) }, events: [started] })
  t.equal(await code, 1)
  t.match(said.stderr, 'kas: events of hidden: you may not list them, or the agent cannot ask for them\n')
  t.match(checkedOutput(said.stdout), {
    kind: 'EventList',
    problems: ['events of hidden: you may not list them, or the agent cannot ask for them'],
    items: [{ id: 'e1' }, { id: 'e2' }],
  })
  for (const argv of [['a', 'b', 'c', 'd', 'e', 'f'].flatMap((name) => ['-n', name])]) {
    t.equal(await run('get', 'events', ...argv).code, 2)
  }
})

t.test('a watch shows each change, says when it is lost, and goes on', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'Pod', '--watch', '-o', 'json')
  const first = await viewer()
  await first.request(({ type }) => type === 'open')
  first.update({ seq: 1, pages: { '': page([]) }, state: live })
  first.cut()
  const second = await viewer()
  await second.request(({ type }) => type === 'open')
  second.error('VIEWS_NOT_SERVED', 'The agent does not serve views')
  t.equal(await code, 1)
  const lines = said.stdout.trimEnd().split('\n')
  t.match(
    lines.map((line) => checkedOutput(line)),
    [
      { kind: 'StateChange', type: 'STATE', complete: true, state: 'live', unlisted: 0 },
      {
        kind: 'StateChange',
        type: 'STATE',
        complete: true,
        state: 'stale',
        stateMessage: /the WebSocket ended with 1006/,
      },
    ],
  )
  t.match(said.stderr, /what is shown may be old\nkas get: The agent does not serve views \(VIEWS_NOT_SERVED\)\n$/)
})

t.test('a node that is not there for a while, as when another pod leads, is opened again', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { code } = run('tree', '--watch')
  const one = await viewer()
  const pages = () =>
    one.requests.flatMap((request) => (request.type === 'page' ? [[request.node, request.limit]] : []))
  await one.request(({ type }) => type === 'open')
  one.update({ seq: 1, rows: [deployment], pages: { '': page(['d1']) }, state: live })
  await one.request(({ type }) => type === 'page')
  one.update({ seq: 1, pages: { '': page([]), d1: null }, state: { is: 'syncing', since: 0 } })
  one.update({ seq: 2, rows: [deployment], pages: { '': page(['d1']) }, state: live })
  await one.request(() => pages().length > 2)
  t.strictSame(pages(), [
    ['d1', 50],
    ['d1', 0],
    ['d1', 50],
  ])
  one.error('BAD_REQUEST', 'enough')
  t.equal(await code, 1)
})

t.test('what ends at the first answer is refused in its words', async (t) => {
  const { run } = await startViewsServer(t, { refuse: 401 })
  const { said, code } = run('health')
  t.equal(await code, 1)
  t.match(
    said.stderr,
    /^kas health: kas at 127.*does not know the token: .*kas answered 401: GitLab Agent Server: Unauth/,
  )
})

t.test('who is told to come back later does', async (t) => {
  const options: { refuse?: number } = { refuse: 429 }
  const { viewer, refused, run } = await startViewsServer(t, options)
  const { code } = run('tree')
  await refused()
  delete options.refuse
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.update({ seq: 1, pages: { '': page([]) }, state: live })
  t.equal(await code, 0)
})

t.test('who waits goes on while no pod of the agent leads', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('health', '--wait', '30s')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.error('VIEWS_NOT_LED', 'none leads')
  const two = await viewer()
  await two.request(({ type }) => type === 'open')
  two.error('VIEWS_NOT_SERVED', 'it has none')
  t.equal(await code, 1, 'but not for what will not pass')
  t.match(said.stderr, /^kas: none leads\nkas health: it has none \(VIEWS_NOT_SERVED\)\n$/)
})

t.test('the health of what is there, worst first', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const cases: [counts: object, state: { is: 'live' | 'stale'; since: number }, code: number, text: RegExp][] = [
    [{ Healthy: 3, Progressing: 1 }, live, 3, /^◐ progressing \(1 progressing, 3 healthy\)/],
    [{ Progressing: 1, Degraded: 1 }, live, 4, /^✗ degraded/],
    [{ Healthy: 1, Unknown: 1 }, live, 5, /^\? unknown/],
    [{}, live, 5, /^unknown: nothing is there that you may list/],
    [{ '': 2 }, live, 5, /^unknown: nothing that is there has a verdict \(2 without a verdict\)/],
    [{ Healthy: 1 }, { is: 'stale', since: 1 }, 5, /^stale since 1970-01-01T00:00:00.001Z/],
  ]
  for (const [counts, state, expected, text] of cases) {
    const { said, code } = run('health')
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, pages: { '': page([], counts) }, state })
    t.equal(await code, expected)
    t.match(said.stdout, text)
  }
})

t.test('tree and get take the namespace of the context, which says nothing of kinds that are in none', async (t) => {
  const { viewer, run } = await startViewsServer(t, { namespace: 'shop' })
  const inShop = { namespaces: ['shop'] }
  const cases: [argv: string[], scope: object | undefined, objects?: object[]][] = [
    [['tree'], inShop],
    [['tree', '-A'], undefined],
    [['tree', '-n', 'bank'], { namespaces: ['bank'] }],
    [['tree', '--application', 'web'], { application: 'web' }],
    [['get', 'pods'], inShop, [{ kind: 'pods' }]],
    [['get', 'nodes'], undefined, [{ kind: 'nodes' }]],
    [['get', 'pods,nodes'], undefined, [{ kind: 'pods', namespace: 'shop' }, { kind: 'nodes' }]],
    [['get', 'clusterissuers'], undefined, [{ kind: 'clusterissuers', namespace: 'shop' }]],
    [['get', 'events'], inShop],
  ]
  for (const [argv, scope, objects] of cases) {
    const { code } = run(...argv)
    const one = await viewer()
    const query = (await one.request(({ type }) => type === 'open')) as Query
    t.strictSame(query.scope, scope, argv.join(' '))
    t.strictSame(query.objects, objects, argv.join(' '))
    one.error('QUERY_REFUSED', 'enough')
    t.equal(await code, 1)
  }
})

t.test('what is wrong with the command line is said', async (t) => {
  const { run } = await startViewsServer(t)
  const cases: [argv: string[], stderr: RegExp][] = [
    [['health', '--wait', 'soon'], /--wait soon: allowed is a time such as 90s, 5m or 1h/],
    [['health', '--wait', '0s'], /--wait 0s: allowed/],
    [['tree', '-o', 'wide'], /-o wide: allowed is table, json, yaml\n/],
    [['get', 'po', '-o', 'xml'], /-o xml: allowed is table, wide, name, json, yaml\n/],
    [['get', 'po', '-o', 'json', '-o', 'json'], /-o is said 2 times: json, json\n/],
    [['get', 'po', '-w', '-o', 'name'], /-o name with --watch: allowed is table, wide, json, yaml\n/],
    [['get', 'events', '-o', 'name'], /-o name: allowed is table, wide, json, yaml\n/],
    [['get', 'po', '--json'], /Unknown option '--json'. JSON is printed with -o json\n/],
    [['health', '--watch'], /Unknown option '--watch'. kas health --wait 5m waits until it is healthy\n/],
    [['health', '-w'], /Unknown option '-w'. kas health --wait 5m waits until it is healthy\n/],
    [['tree', '--environment', 'production'], /allowed is <project id>\/<slug>/],
    [['tree', '--agent', 'web'], /--agent web: allowed is an agent's id, .*; kas agents lists them/],
    [['get'], /KIND is missing, such as pods or deployments.apps/],
    [['get', 'po/web', 'svc'], /svc: KIND\/NAME stands beside others/],
    [['get', 'po/'], /po\/: allowed is KIND\/NAME/],
    [['get', 'po', '--sort', 'size'], /--sort size: allowed is name, age, since/],
    [['health', 'pods'], /named as KIND\/NAME/],
    [['health', '-f', '/nowhere'], /-f \/nowhere: ENOENT/],
    [['health', '--logs', '1000'], /--logs 1000: allowed/],
    [['health', '--environment'], /CI_PROJECT_ID and CI_ENVIRONMENT_SLUG are not set/],
    [['tree', '--kubeconfig', '/nowhere'], /Cannot read kubeconfig \/nowhere/],
  ]
  for (const [argv, stderr] of cases) {
    const { said, code } = run(...argv)
    t.equal(await code, 2, argv.join(' '))
    t.match(said.stderr, stderr)
  }
})

t.test('a query that is too large for kas ends with what to do, and is not sent again', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'po/web')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.close(1009)
  t.equal(await code, 1)
  t.equal(
    said.stderr,
    'kas get: the query has more than 65536 bytes: ask for fewer objects at once (MESSAGE_TOO_LARGE)\n',
  )
})

t.test('an agent that says circles and odd words harms no terminal', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  for (const format of [[], ['-o', 'json']]) {
    const { said, code } = run('tree', ...format)
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    const odd = '\u001b]0;gone\u0007'
    const rows = ['a', 'b'].map((u) => ({ u, k: 'Pod', n: odd, c: 2, why: [odd, odd, odd] as const, f: [odd] }))
    const pages = { '': page(['a', 'b'], {}), a: page(['a', 'b']), b: page(['a', 'b']) }
    one.update({ seq: 1, rows, pages, state: { is: 'live', since: 1e300, why: odd } })
    t.equal(await code, 0)
    t.notOk(said.stdout.includes('\u001b'))
    t.ok(said.stdout.length < 4000)
  }
  const { said, code } = run('tree')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.error('BAD_REQUEST', '\u001b[2J')
  t.equal(await code, 1)
  t.notOk(said.stderr.includes('\u001b'))
})
