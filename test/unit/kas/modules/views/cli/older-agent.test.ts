import t from 'tap'
import type { Query } from '../../../../../../src/proto/views-json.ts'
import { startViewsServer, type Viewer } from './views-server.ts'

/** An agentk, or a kas, of before: it knows less of a query, and says so. */

const live = { is: 'live', since: 0 } as const
type Opened = Query & { readonly fresh?: boolean }
const opened = async (one: Viewer) => (await one.request(({ type }) => type === 'open')) as Opened
const refuse = (one: Viewer, key: string) =>
  one.error('BAD_REQUEST', `Bad request: the query has the unknown key "${key}"; allowed: view, scope, filter, limit`)

const rows = [
  {
    u: 'a',
    k: 'apps/Deployment',
    ns: 'shop',
    n: 'web',
    t: 2,
    h: ['Degraded', 'Failed'] as const,
    why: ['x', ''] as const,
  },
  { u: 'b', k: 'apps/Deployment', ns: 'shop', n: 'web-2', t: 3, h: ['Healthy', 'Current'] as const },
  { u: 'c', k: 'apps/Deployment', ns: 'bank', n: 'web', t: 4, h: ['Healthy', 'Current'] as const },
]
const answer = (one: Viewer, more = 0) =>
  one.update({ seq: 1, rows, pages: { '': { order: ['a', 'b', 'c'], counts: {}, more } }, state: live })

t.test('it is asked without what it does not know, which is chosen here', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'deploy/web', '-n', 'shop', '--sort', 'age', '-o', 'name')
  const first = await viewer()
  t.match(await opened(first), { fresh: true, objects: [{ kind: 'deploy', name: 'web' }], sort: 'age' })
  refuse(first, 'fresh')
  const second = await viewer()
  t.equal((await opened(second)).fresh, undefined)
  refuse(second, 'objects')
  const third = await viewer()
  const without = await opened(third)
  t.match(without, { filter: { kinds: ['apps/Deployment'], text: 'web' }, sort: 'age' })
  t.equal(without.objects, undefined)
  refuse(third, 'sort')
  const last = await viewer()
  t.equal((await opened(last)).sort, undefined)
  answer(last)
  t.equal(await code, 0)
  t.equal(said.stdout, 'deployment.apps/web\ndeployment.apps/web\n', 'of two namespaces: the scope is the agent\u2019s')
  t.match(said.stderr, /the agent is older and does not know "objects": what is shown is chosen here/)
  t.match(said.stderr, /does not know "sort": its first rows are put in order here/)
  t.notMatch(said.stderr, /fresh/)
})

t.test('the tree around an object is that of its name', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('tree', 'deploy/web')
  const first = await viewer()
  await opened(first)
  refuse(first, 'objects')
  const second = await viewer()
  t.match(await opened(second), { view: 'object', filter: { text: 'web', kinds: ['apps/Deployment'] } })
  second.error('BAD_REQUEST', 'Bad request: "view" is one of tree, list, environments, events')
  const third = await viewer()
  t.match(await opened(third), { view: 'tree' })
  answer(third)
  t.equal(await code, 0)
  t.match(said.stdout, /✗ degraded {2}shop\/Deployment\/web {2}.*x\n/, 'its verdict is that of Argo CD')
})

t.test('of labels its rows tell nothing: it is refused in its words', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'po', '-l', 'app=web')
  const one = await viewer()
  await opened(one)
  refuse(one, 'labels')
  t.equal(await code, 1)
  t.match(said.stderr, /unknown key "labels"/)
})

t.test('an empty answer of it is no success: it does not say who may list what', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'po')
  const one = await viewer()
  await opened(one)
  refuse(one, 'objects')
  const two = await viewer()
  await opened(two)
  two.update({ seq: 1, pages: { '': { order: [], counts: {}, more: 0 } }, state: live })
  t.equal(await code, 1)
  t.match(said.stderr, /no po found; the agent is older, and does not say whether you may list it/)
})

t.test('a kas that takes no such long query is asked without', async (t) => {
  const { viewer, run } = await startViewsServer(t)
  const { said, code } = run('get', 'po/web', '-o', 'name')
  const one = await viewer()
  await opened(one)
  one.close(1009)
  const two = await viewer()
  t.match(await opened(two), { filter: { kinds: ['Pod'] } })
  answer(two)
  t.equal(await code, 1)
  t.match(said.stderr, /po\/web is not found/, 'no Pod was among what it said')
})
