import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { startKasCli } from '../../../../../support/kas-cli.ts'

const groups = ['example.com', 'b.example.com', 'gone.example.com'].map((name) => ({
  name,
  versions: [{ groupVersion: `${name}/v1`, version: 'v1' }],
  preferredVersion: { groupVersion: `${name}/v1`, version: 'v1' },
}))
const resources = (...all: readonly [name: string, kind: string][]) => ({
  resources: all.map(([name, kind]) => ({ name, kind })),
})

/** Starts a kas that answers by path; 404 for other paths. */
async function start(t: Test, state: object) {
  const asked: string[] = []
  const answers: Record<string, unknown> = {
    '/k8s-proxy/views?view=list&limit=1': { seq: 1, at: 0, state },
    '/k8s-proxy/apis': { groups },
    '/k8s-proxy/api/v1': resources(['pods', 'Pod'], ['pods/log', 'Pod'], ['secrets', 'Secret']),
    '/k8s-proxy/apis/example.com/v1': resources(['widgets', 'Widget'], ['widgets/status', 'Widget'], ['*', 'Odd']),
    '/k8s-proxy/apis/b.example.com/v1': resources(['vertices', 'Vertex'], ['secrets', 'Fake']),
    '/k8s-proxy/apis/gone.example.com/v1': resources(),
  }
  const { printed, run: kas } = await startKasCli(t, (request, response) => {
    asked.push(`${request.url} ${request.headers.authorization}`)
    const answer = answers[request.url ?? '']
    response.statusCode = answer ? 200 : 404
    response.end(JSON.stringify(answer ?? { message: 'no such path' }))
  })
  const run = (...args: string[]) => kas('views', ...args)
  return { run, printed, asked }
}

const live = { is: 'live', since: 0 }

t.test('what is not followed becomes a role, by the names that it has in paths', async (t) => {
  const notFollowed = ['Pod shop', 'b.example.com/Vertex', 'example.com/Widget', 'example.com/Widget shop/too-large']
  const { run, printed, asked } = await start(t, { ...live, notFollowed: [...notFollowed, 'gone.example.com/Gone'] })
  t.equal(await run('role', '--agent', '7', '--service-account', 'kas/reader'), 0)
  const verbs = ['get', 'list', 'watch']
  const [role, binding] = parseAllDocuments(printed.out).map((document) => document.toJS())
  t.strictSame(role.rules, [
    { apiGroups: [''], resources: ['pods'], verbs },
    { apiGroups: ['b.example.com'], resources: ['vertices'], verbs },
    { apiGroups: ['example.com'], resources: ['widgets'], verbs },
  ])
  t.match(binding, {
    roleRef: { kind: 'ClusterRole', name: role.metadata.name },
    subjects: [{ kind: 'ServiceAccount', name: 'reader', namespace: 'kas' }],
  })
  t.equal(printed.err, '')
  t.ok(asked.every((one) => one.endsWith(' Bearer pat:7:secret')))
})

t.test('an agent gets no rights for what it has no business with, whatever it says', async (t) => {
  const notFollowed = ['Secret', 'b.example.com/Fake', 'example.com/Odd', 'x]\n  - bad/Thing', 'example.com/Widget']
  const { run, printed } = await start(t, { ...live, notFollowed })
  t.equal(await run('role'), 0)
  const [role] = parseAllDocuments(printed.out).map((document) => document.toJS())
  t.match(role.rules, [{ apiGroups: ['example.com'], resources: ['widgets'] }])
  t.equal(role.rules.length, 1)
})

t.test('nothing is missing; nothing is known yet; what is asked for is not what there is', async (t) => {
  const all = await start(t, live)
  t.equal(await all.run('role'), 0)
  t.strictSame(all.printed, { out: '', err: 'kas: agentk follows all that you may list\n' })
  const syncing = await start(t, { is: 'syncing', since: 0 })
  t.equal(await syncing.run('role'), 1)
  t.match(syncing.printed, { out: '', err: /^kas views: the cluster is still being listed/ })
  for (const args of [[], ['roles'], ['role', '--service-account', 'agentk'], ['role', '--what']]) {
    t.equal(await all.run(...args), 2, args.join(' '))
  }
  t.equal(await all.run('--help'), 0)
  t.match(all.printed.out, /^usage: kas views role/)
})
