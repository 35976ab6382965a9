import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { startKasCli } from '../../../../../support/kas-cli.ts'

const resources = (...all: (readonly [name: string, kind: string, short?: string])[]) => ({
  resources: all.flatMap(([name, kind, short]) => [
    { name, kind, namespaced: kind !== 'ClusterRole', verbs: ['get', 'patch'], shortNames: short ? [short] : [] },
    { name: `${name}/status`, kind, namespaced: true, verbs: ['get', 'patch'] },
  ]),
})
const groups = ['apps', 'rbac.authorization.k8s.io', 'example.com'].map((name) => ({
  name,
  versions: [{ version: 'v1' }, { version: 'v1beta1' }],
  preferredVersion: { version: 'v1' },
}))
const discovery: Readonly<Record<string, object>> = {
  '/api': { versions: ['v1'] },
  '/api/v1': resources(['configmaps', 'ConfigMap', 'cm']),
  '/apis': { groups },
  '/apis/apps/v1': resources(['deployments', 'Deployment', 'deploy']),
  '/apis/rbac.authorization.k8s.io/v1': resources(['clusterroles', 'ClusterRole']),
  '/apis/example.com/v1': resources(['deployments', 'Deployment'], ['things', 'Thing', 'th']),
}

/** Starts a kas with an API server behind it. */
async function start(t: Test, { label = '42-7', status = 200 } = {}) {
  const asked: string[] = []
  const listener: RequestListener = async (request, response) => {
    const body = await text(request)
    const path = (request.url ?? '').replace('/k8s-proxy', '')
    const found = discovery[path]
    const isOlderVersion = path.endsWith('/v1beta1')
    if (!found && !isOlderVersion) asked.push(`${request.method} ${path} ${body}`.trim())
    const object = { metadata: { name: 'web', labels: { 'agent.gitlab.com/inventory': label } } }
    response.statusCode = isOlderVersion ? 404 : found ? 200 : status
    response.end(JSON.stringify(found ?? (status === 200 ? object : { message: 'you may not' })))
  }
  const { printed, run } = await startKasCli(t, listener)
  return { printed, asked, hold: (...args: string[]) => run('gitops', 'hold', ...args) }
}

const objectOf = ([path = '']: readonly string[]) => path.replace('GET ', '')

t.test('a hold is an annotation with its end, written as the caller', async (t) => {
  const { hold, asked, printed } = await start(t)
  const before = Date.now()
  t.equal(await hold('deploy/web', '-n', 'shop', '--for', '2h'), 0)
  const path = '/apis/apps/v1/namespaces/shop/deployments/web'
  t.equal(asked[0], `GET ${path}`)
  const [, until = ''] =
    /^PATCH .*web \{"metadata":\{"annotations":\{"agent\.gitlab\.com\/correct-after":"(.*)"\}\}\}$/.exec(
      asked[1] ?? '',
    ) ?? []
  const ms = Date.parse(until) - before
  t.ok(ms >= 2 * 3_600_000 && ms < 2 * 3_600_000 + 60_000, until)
  t.match(printed.out, `source 42-7 leaves deploy/web as it is until ${until}`)
})

t.test('0s ends a hold', async (t) => {
  const { hold, asked, printed } = await start(t)
  t.equal(await hold('Deployment/web', '--for', '0s'), 0)
  t.match(asked[1], /"agent\.gitlab\.com\/correct-after":null/)
  t.match(printed.out, /source 42-7 sets Deployment\/web back as its drift mode says/)
})

t.test('kinds are named as kubectl names them', async (t) => {
  const cases = {
    'deployments.apps/web': '/apis/apps/v1/namespaces/default/deployments/web',
    'cm/web': '/api/v1/namespaces/default/configmaps/web',
    'clusterrole/system:web': '/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aweb',
    'th/web': '/apis/example.com/v1/namespaces/default/things/web',
    'thing.v1.example.com/web': '/apis/example.com/v1/namespaces/default/things/web',
  }
  for (const [word, path] of Object.entries(cases)) {
    const { hold, asked } = await start(t)
    t.equal(await hold(word, '--for', '1h'), 0, word)
    t.equal(objectOf(asked), path)
  }
})

t.test('an object that no source keeps is not annotated: nothing would follow from it', async (t) => {
  const { hold, asked, printed } = await start(t, { label: '' })
  t.equal(await hold('deploy/web', '--for', '1h'), 1)
  t.match(printed.err, /no GitOps source keeps it/)
  t.equal(asked.length, 1)
})

t.test('bad input is named before anything is asked', async (t) => {
  const wrong: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /allowed is one object/],
    [['web', '--for', '1h'], /allowed is KIND\/NAME/],
    [['deploy/', '--for', '1h'], /allowed is KIND\/NAME/],
    [['deploy/..', '--for', '1h'], /allowed is KIND\/NAME/],
    [['deploy/a?b', '--for', '1h'], /allowed is KIND\/NAME/],
    [['deploy/web'], /--for says how long/],
    [['deploy/web', '--for', 'tomorrow'], /--for tomorrow: allowed is a time such as/],
    [['deploy/web', '--for', '169h'], /at most 168h/],
    [['deploy/web', '--for', '-1h'], /for/],
  ]
  for (const [args, message] of wrong) {
    const { hold, asked, printed } = await start(t)
    t.equal(await hold(...args), 2, args.join(' '))
    t.match(printed.err, message)
    t.equal(asked.length, 0)
  }
})

t.test('an unknown kind, and an object that the caller may not get', async (t) => {
  const unknown = await start(t)
  t.equal(await unknown.hold('gadget/web', '--for', '1h'), 1)
  t.match(unknown.printed.err, /the cluster has no kind gadget: kubectl api-resources/)
  const denied = await start(t, { status: 403 })
  t.equal(await denied.hold('deploy/web', '--for', '1h'), 1)
  t.match(denied.printed.err, /you may not/)
  t.equal(denied.asked.length, 1)
})

t.test('a hostile agent does not send the caller to another path', async (t) => {
  for (const [group, version, plural] of [
    ['..', '..', 'things'],
    ['example.com', '..', 'things'],
    ['example.com', 'v1', '..'],
    ['.', 'v1', 'things'],
  ]) {
    const asked: string[] = []
    const resource = { resource: plural, scope: 'Cluster', verbs: ['get', 'patch'], responseKind: { kind: 'Thing' } }
    const items = [{ metadata: { name: group }, versions: [{ version, resources: [resource] }] }]
    const { printed, run } = await startKasCli(t, ({ method, url = '' }, response) => {
      asked.push(`${method} ${url}`)
      response.end(JSON.stringify({ kind: 'APIGroupDiscoveryList', items: url.endsWith('/apis') ? items : [] }))
    })
    t.equal(await run('gitops', 'hold', 'thing/web', '--for', '1h'), 1)
    t.match(printed.err, /the cluster names thing in a form that no kind has/)
    t.strictSame(asked, ['GET /k8s-proxy/api', 'GET /k8s-proxy/apis'])
  }
})
