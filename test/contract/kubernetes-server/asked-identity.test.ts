import t, { type Test } from 'tap'
import type { KubernetesServerComponents } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { hasControls } from '../../../src/lib/printable.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { type ClusterRequest, clusterForward, echo } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'

/**
 * Callers' own `Impersonate-*` headers: where kas passes them on, where it refuses them, and their names in its log.
 */

const asAgent = 'Authorization: Bearer pat:42:good'
const asUser = 'Authorization: Bearer pat:42:as-user'
const asJob = 'Authorization: Bearer ci:42:as-job'
const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: k', 'sec-websocket-version: 13']
const spdy = ['Connection: Upgrade', 'Upgrade: SPDY/3.1']
const pods = '/k8s-proxy/api/v1/namespaces/web/pods'

async function start(t: Test, components: Partial<KubernetesServerComponents> = {}) {
  const access = new AccessLines({ rules: [{ level: 'metadata' }] })
  const requests: ClusterRequest[] = []
  const served: string[] = []
  const forward = clusterForward((request) => {
    requests.push(request)
    return echo(request)
  })
  const own = (path: string) => ({
    path,
    methods: ['GET'],
    serve: async () => {
      served.push(path)
      return { status: 200, mediaType: 'application/json', body: Buffer.from('{}') }
    },
  })
  const started = await startServer(forward, { limits: { maxOwnRequests: 0, maxOwnSockets: 0 } }, undefined, {
    accessLog: access.log,
    webSocketTokens: new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock }),
    endpoints: ['/gitops/state', '/views', '/graph'].map(own),
    ...components,
  })
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const ask = async (line: string, ...headers: string[]) => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return await client.request(line, ...headers).until(/^HTTP.*\}\n?$/s)
  }
  return { access, requests, served, ask }
}

const spellings = [
  'Impersonate-User: eve',
  'impersonate-user: eve',
  'IMPERSONATE-GROUP: system:masters',
  'Impersonate_User: eve',
  'Impersonate-Uid: 7',
  'Impersonate-Extra-Scopes: x',
  'Impersonate-Future: x',
  'Impersonate-User:',
]

const refused = (text: string) => /^HTTP\/1\.1 403 .*\r\nKas-Delivery: none\r\n.*"reason":"Forbidden"/s.test(text)

// wire: error.http.nested
t.test('where kas has the call act as somebody, callers name nobody', async (t) => {
  const { requests, ask } = await start(t)
  for (const credential of [asUser, asJob]) {
    const pairs = [
      ...spellings.map((header) => [header, `GET ${pods}`] as const),
      ...[
        [`GET ${pods}?watch=1`],
        [`DELETE ${pods}/a`],
        [`GET ${pods}/a/exec?command=id`, ...websocket],
        [`POST ${pods}/a/exec?command=id`, ...spdy],
      ].map((request) => ['impersonate-user: eve', ...request] as const),
    ]
    for (const [header, line, ...headers] of pairs) {
      const text = await ask(line as string, credential, header, ...headers)
      t.ok(refused(text), `${line} ${header}`)
      t.match(text, /Impersonate-\* headers of callers are refused here: this call acts as gitlab:/)
    }
    const named = await ask(`GET ${pods}`, credential, 'Impersonate-User: eve', 'Connection: Impersonate-User')
    t.ok(refused(named), 'also a header that Connection names')
  }
  t.equal(requests.length, 0)
})

t.test("kas' own endpoints refuse them for all callers, before they take a place", async (t) => {
  const { served, requests, ask } = await start(t)
  const paths = ['/gitops/state', '/views', '/graph', '/watch', '/api?kas-websocket-token-request=true']
  const pairs = [
    ...spellings.map((header) => ['/gitops/state', header] as const),
    ...paths.map((path) => [path, 'impersonate-user: eve'] as const),
  ]
  for (const credential of [asAgent, asUser]) {
    for (const [path, header] of pairs) {
      t.ok(refused(await ask(`GET /k8s-proxy${path}`, credential, header)), `${path} ${header}`)
      t.ok(refused(await ask(`GET /k8s-proxy${path}`, credential, header, ...websocket)), `${path} ${header}`)
    }
  }
  t.match(await ask('GET /k8s-proxy/graph', asAgent), /^HTTP\/1\.1 429 /, 'there is no place')
  t.strictSame(served, [])
  t.equal(requests.length, 0)
})

// wire: as.own-headers
t.test('of callers that act as the agent they go to agentk, which decides', async (t) => {
  const { requests, ask } = await start(t)
  t.match(await ask(`GET ${pods}`, asAgent, 'impersonate-user: eve', 'Impersonate_Group: x'), /^HTTP\/1\.1 200 /)
  const header = new Map(requests[0]?.header.header)
  t.strictSame([header.get('Impersonate-User'), header.get('Impersonate_group')], [['eve'], ['x']])
})

t.test('the access log names whom a caller asks for, also of refused calls', async (t) => {
  const { access, ask } = await start(t)
  const headers = [
    'impersonate-user: system:serviceaccount:shop:deployer',
    'Impersonate-Group: system:masters',
    'Impersonate-Group: dev',
    'Impersonate-Uid: 7',
    'Impersonate-Extra-Scopes: secret',
    'Impersonate_user: eve',
  ]
  const asked = [
    'serviceaccount:shop:deployer',
    ...['group:system:masters', 'group:dev', 'uid:7', 'extra:scopes', 'impersonate_user:eve'],
  ]
  await ask(`GET ${pods}/a`, asAgent, ...headers)
  await ask(`GET ${pods}/b`, asUser, ...headers, 'Connection: Impersonate-User')
  await ask('GET /k8s-proxy/graph', asAgent, ...headers)
  await ask(`GET ${pods}/d`, 'Authorization: Bearer pat:42:nobody', ...headers)
  await ask(`GET ${pods}/e`, asUser)
  const lines = await access.count(5)
  t.match(lines, [
    { asked_as: asked, status: 200, class: 'read' },
    {
      asked_as: asked,
      as: 'gitlab:user:ada',
      status: 403,
      class: 'refusal',
      reason: 'IDENTITY_REFUSED',
      delivery: 'none',
    },
    { asked_as: asked, path: '/graph', status: 403, reason: 'IDENTITY_REFUSED', delivery: 'none' },
    { asked_as: asked, event: 'refused', reason: 'USER_UNAUTHORIZED' },
    { as: 'gitlab:user:ada' },
  ])
  t.notOk(lines[0] && 'as' in lines[0])
  t.notOk(lines[4] && 'asked_as' in lines[4])
  t.notMatch(access.text, /secret/)
})

t.test('bad input: names with escapes, invalid UTF-8, of 60 KB, and hundreds of them', async (t) => {
  const { access, ask } = await start(t)
  await ask(`GET ${pods}/a`, asUser, `Impersonate-User: ${'x'.repeat(60_000)}`)
  await ask(`GET ${pods}/b`, asUser, ...Array.from({ length: 400 }, (_, i) => `Impersonate-Group: g${i}`))
  await ask(`GET ${pods}/c`, asUser, 'Impersonate-User: j\xc3\xbcrgen \xff\xc2\x9b31m\xe2\x80\xae', 'Impersonate-User:')
  const lines = await access.count(3)
  t.strictSame(
    lines.map(({ asked_as }) => asked_as),
    [
      [`user:${'x'.repeat(251)}…`],
      Array.from({ length: 10 }, (_, i) => `group:g${i}`),
      ['user:jürgen \ufffd\u009b31m\u202e', 'user:'],
    ],
  )
  t.notOk(hasControls(access.text.replaceAll('\n', '')), 'it steers no terminal')
})
