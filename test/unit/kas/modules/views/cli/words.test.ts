import t from 'tap'
import type { Query, ViewState } from '../../../../../../src/proto/views-json.ts'
import { startViewsServer } from './views-server.ts'

/** Words that a user types, and the message when nothing can be shown. */

const live = { is: 'live', since: 0 } as const
const page = (order: string[], more = 0) => ({ order, counts: {}, more })
const cases: [argv: string, query: Omit<Query, 'view' | 'limit'> & { view?: string }][] = [
  ['get pods', { objects: [{ kind: 'pods' }] }],
  ['get po,svc -A', { objects: [{ kind: 'po' }, { kind: 'svc' }] }],
  ['get po -n shop -A', { objects: [{ kind: 'po' }] }],
  ['get po -n shop', { objects: [{ kind: 'po' }], scope: { namespaces: ['shop'] } }],
  ['get deploy web', { objects: [{ kind: 'deploy', name: 'web' }] }],
  [
    'get deploy/web sts/db -n shop',
    {
      objects: [
        { kind: 'deploy', name: 'web' },
        { kind: 'sts', name: 'db' },
      ],
      scope: { namespaces: ['shop'] },
    },
  ],
  ['get apps/Deployment', { objects: [{ kind: 'apps/Deployment' }] }],
  ['get example.com/Widget', { objects: [{ kind: 'example.com/Widget' }] }],
  ['get widgets.example.com/one', { objects: [{ kind: 'widgets.example.com', name: 'one' }] }],
  ['get nodes -n shop', { objects: [{ kind: 'nodes' }] }],
  ['get no,po -n shop', { objects: [{ kind: 'no' }, { kind: 'po', namespace: 'shop' }] }],
  ['get po -l app=web --sort age', { objects: [{ kind: 'po' }], labels: 'app=web', sort: 'age' }],
  ['get po --environment 7/production', { objects: [{ kind: 'po' }], scope: { environment: '7/production' } }],
  [
    'tree deploy/web -n shop',
    {
      view: 'object',
      objects: [{ kind: 'deploy', name: 'web' }],
      scope: { namespaces: ['shop'] },
    },
  ],
]

t.test('words are the agent\u2019s to resolve; a namespace says nothing of what is in none', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  for (const [argv, query] of cases) {
    const { code } = run(...argv.split(' '))
    const one = await viewer()
    const { type, id, agent, fresh, limit, ...asked } = (await one.request((each) => each.type === 'open')) as Query & {
      type: string
      id: number
      agent: string
      fresh: boolean
    }
    t.strictSame(asked, { view: argv.startsWith('get') ? 'list' : 'tree', ...query }, argv)
    t.strictSame([type, id, agent, fresh, (limit ?? 0) >= 100], ['open', 1, '42', true, true])
    one.error('FORBIDDEN', 'enough')
    t.equal(await code, 1)
  }
})

t.test('a job of GitLab names its environment by itself', async (t) => {
  const { viewer, runWith } = await startViewsServer(t)
  const env = { CI_PROJECT_ID: '7', CI_ENVIRONMENT_SLUG: 'prod-eu', CI: 'true', KUBE_NAMESPACE: 'shop' }
  const asked: [argv: string[], scope: Query['scope']][] = [
    [['tree', '--environment'], { environment: '7/prod-eu' }],
    [['tree', '--environment', '-o', 'json'], { environment: '7/prod-eu' }],
    [['health', '--environment'], { namespaces: ['shop'], environment: '7/prod-eu' }],
    [['health', '--environment', '-A'], { environment: '7/prod-eu' }],
    [['health', '--environment', '-n', 'bank'], { namespaces: ['bank'], environment: '7/prod-eu' }],
    [['health'], { namespaces: ['shop'] }],
    [['tree'], undefined],
  ]
  for (const [argv, scope] of asked) {
    const { code, said } = runWith({ env }, ...argv)
    const one = await viewer()
    t.strictSame(((await one.request(({ type }) => type === 'open')) as Query).scope, scope, argv.join(' '))
    one.error('FORBIDDEN', 'enough')
    t.equal(await code, 1)
    const isNarrowed = argv.join(' ') === 'health --environment'
    t.equal(said.stderr.includes('only namespace shop of the environment is judged'), isNarrowed, argv.join(' '))
  }
  const { code, said } = runWith({ env: { KUBE_CONTEXT: 'other' } }, 'tree')
  t.equal(await code, 2)
  t.match(said.stderr, /no context "other"/)
})

const bob = { username: 'gitlab:user:bob', groups: ['gitlab:user', 'gitlab:project_role:1:guest'] }
const many = { ...bob, groups: [...bob.groups, 'gitlab:group_role:7:guest', 'gitlab:group_role:8:guest'] }
const ask = 'ask an administrator of the cluster for a role for'
const refusals: [argv: string, state: Omit<ViewState, 'is' | 'since'>, stderr: string, code: number][] = [
  [
    'get pods -n shop',
    { you: bob, refused: [['pods', 'shop']] },
    `kas: you are gitlab:user:bob (groups gitlab:user, gitlab:project_role:1:guest) and may not list pods in shop: ${ask} you, or for a group of yours\n`,
    1,
  ],
  [
    'get pods -n shop',
    { you: many, refused: [['pods', 'shop']] },
    `kas: you are gitlab:user:bob (groups gitlab:user, gitlab:project_role:1:guest and 2 more) and may not list pods in shop: ${ask} you, or for a group of yours\n`,
    1,
  ],
  [
    'get pods,deploy',
    {
      you: { username: 'bob', groups: [] },
      refused: [
        ['pods', ''],
        ['deployments.apps', ''],
      ],
    },
    `kas: you are bob and may not list pods, deployments.apps in any namespace: ${ask} you, or for a group of yours\n`,
    1,
  ],
  [
    'get nodes',
    { you: { username: 'bob', groups: [] }, refused: [['nodes', '']] },
    `kas: you are bob and may not list nodes: ${ask} you, or for a group of yours\n`,
    1,
  ],
  [
    'tree -n shop',
    { you: { username: '', groups: [] }, refused: [['', 'shop']] },
    `kas: you are let in as the agent itself, whose account may not list anything in shop: ${ask} agentk's account\n`,
    1,
  ],
  [
    'get pdos',
    { unknown: [['pdos', 'pods']] },
    'kas: no kind is called "pdos", or none that you may list; did you mean pods?\n',
    1,
  ],
  ['get wdgets', { unknown: [['wdgets', '']] }, 'kas: no kind is called "wdgets", or none that you may list\n', 1],
  [
    'get secrets',
    { notFollowed: ['Secret', 'example.com/Widget'] },
    'kas: Secret is not followed by the agent: follow.kinds of its views.yaml, or its role, says which are\n',
    1,
  ],
  ['get pods', { notFollowed: ['Secret'] }, 'no pods found\n', 0],
  ['get po -n shop', {}, 'no po found in shop\n', 0],
  ['get deploy/web -n shop', {}, 'kas: deploy/web is not found in shop\n', 1],
  [
    'tree',
    {},
    'nothing is found that you may list and agentk follows: kas views role prints the role that agentk lacks\n',
    0,
  ],
  ['tree -n shop', {}, 'nothing is found in shop\n', 0],
  ['tree --application 42-1', {}, 'kas: application 42-1 has no objects that you may list: of it is what', 1],
  [
    'tree --environment 7/production',
    {},
    'kas: environment 7/production has no objects that you may list: of it is what bears both labels ' +
      'app.gitlab.com/project_id=7 app.gitlab.com/environment_slug=production, as kubectl -n NAMESPACE label',
    1,
  ],
  ['health -n shop', { you: bob, refused: [['', 'shop']] }, 'kas: you are gitlab:user:bob (', 1],
  ['health deplyo/web', { unknown: [['deplyo', 'deploy']] }, 'kas: no kind is called "deplyo"', 1],
  ['health secret/web -n shop', { notFollowed: ['Secret'] }, 'kas: Secret is not followed by the agent', 1],
]

t.test('an empty answer says why, and is no success where it is refused', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  for (const [argv, state, stderr, expected] of refusals) {
    const { said, code } = run(...argv.split(' '))
    const one = await viewer()
    await one.request(({ type }) => type === 'open')
    one.update({ seq: 1, pages: { '': page([]) }, state: { ...live, ...state } as ViewState })
    t.equal(await code, expected, argv)
    t.ok(said.stderr.startsWith(stderr), said.stderr)
    t.equal(said.stdout, '')
  }
})

t.test('what is shown beside what is refused is shown', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'po,svc', '-n', 'shop', '-o', 'name')
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  const rows = [
    { u: 'a', k: 'Pod', ns: 'shop', n: 'web-1' },
    { u: 'b', k: 'apps/Deployment', ns: 'shop', n: 'web' },
    { u: 'c', k: 'example.com/Widget', ns: 'shop', n: 'one' },
  ]
  one.update({
    seq: 1,
    rows,
    pages: { '': page(['a', 'b', 'c']) },
    state: { ...live, you: bob, refused: [['services', 'shop']] },
  })
  t.equal(await code, 1)
  t.equal(said.stdout, 'pod/web-1\ndeployment.apps/web\nwidget.example.com/one\n')
  t.match(said.stderr, /may not list services in shop/)
})

t.test('a GitOps source is named as kas gitops status prints it, by its name, or by its id', async (t) => {
  const sources = [
    { source: '42-1', project: 'platform/shop', name: 'shop' },
    { source: '42-2', project: 'platform/a', name: 'bank' },
    { source: '42-3', project: 'platform/b', name: 'bank' },
    { source: '42-4', project: 'platform/one', name: '' },
    { source: '42-platform/new', project: 'platform/new', name: '' },
  ]
  const answer = (path: string) =>
    path === '/gitops/state' ? { status: 200, body: JSON.stringify({ sources }) } : { status: 404, body: '' }
  const { viewer, run, asked } = await startViewsServer(t, { answer })
  for (const argv of ['tree', 'health', 'get po', 'get events']) {
    for (const [name, id] of [
      ['shop', '42-1'],
      ['42-2', '42-2'],
      ['platform/shop (shop)', '42-1'],
      ['platform/b (bank)', '42-3'],
      ['platform/one', '42-4'],
      ['flux-system/shop', 'flux-system/shop'],
      ['platform/shop', 'platform/shop'],
    ]) {
      const { code } = run(...argv.split(' '), '--application', name as string)
      const one = await viewer()
      t.strictSame(
        ((await one.request(({ type }) => type === 'open')) as Query).scope,
        { application: id },
        `${argv} ${name}`,
      )
      one.error('FORBIDDEN', 'enough')
      t.equal(await code, 1)
    }
  }
  t.equal(asked.length, 4 * 7)
  const { code, said } = run('tree', '--application', 'bank')
  t.equal(await code, 1)
  t.match(said.stderr, /several GitOps sources are called bank: name one by its id, 42-2, 42-3/)
})

t.test('events of an environment are those of its objects', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'events', '--environment', '7/production')
  const members = await viewer()
  t.match(await members.request(({ type }) => type === 'open'), {
    view: 'list',
    scope: { environment: '7/production' },
  })
  const rows = [{ u: 'p1', k: 'Pod', ns: 'shop', n: 'web-1' }]
  members.update({ seq: 1, rows, pages: { '': page(['p1']) }, state: live })
  const events = await viewer()
  t.match(await events.request(({ type }) => type === 'open'), { view: 'events', scope: { namespaces: ['shop'] } })
  const event = (u: string, uid: string) =>
    ({
      u,
      ns: 'shop',
      about: ['Pod', `pod-${uid}`, uid],
      type: 'Normal',
      reason: 'Started',
      text: '',
      count: 1,
      at: 1,
    }) as const
  events.update({ seq: 1, pages: { '': page([]) }, state: live })
  events.update({ seq: 2, events: [event('e1', 'p1'), event('e2', 'p2')], pages: { 'n:shop': page(['e1', 'e2']) } })
  t.equal(await code, 0)
  t.match(said.stdout, /Pod\/pod-p1/)
  t.notMatch(said.stdout, /pod-p2/)
  const empty = run('get', 'events', '--environment', '7/production')
  const none = await viewer()
  await none.request(({ type }) => type === 'open')
  none.update({ seq: 1, pages: { '': page([]) }, state: live })
  t.equal(await empty.code, 1)
  t.match(empty.said.stderr, /environment 7\/production has no objects/)
})
