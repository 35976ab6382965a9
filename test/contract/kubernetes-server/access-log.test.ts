import t, { type Test } from 'tap'
import type { AccessLine } from '../../../src/kas/access-log/access-line.ts'
import type { AccessLogOptions } from '../../../src/kas/access-log/access-log.ts'
import { viewsEndpoint } from '../../../src/kas/modules/views/api/views-endpoint.ts'
import type { KubernetesServerComponents } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { hasControls } from '../../../src/lib/printable.ts'
import { encodeHttpResponse } from '../../../src/proto/http/http-over-grpc.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { type Cluster, type ClusterRequest, clusterForward, data, head, trailer } from './fake-cluster.ts'
import { RawClient } from './raw-client.ts'
import { startServer } from './start-server.ts'
import { ViewsClient } from './views-client.ts'
import { WatchClient } from './watch-client.ts'

/** One line per call, for each outcome (doc/reference/access-log.md). */

const all = { rules: [{ level: 'metadata' }] } as const satisfies Partial<AccessLogOptions>
const asJob = 'Authorization: Bearer ci:42:as-job'
const asUser = 'Authorization: Bearer pat:42:as-user'
const asAgent = 'Authorization: Bearer pat:42:good'
const page = ['Cookie: _gitlab_kas=as-user', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: planted-csrf']
const websocket = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: k', 'sec-websocket-version: 13']
const spdy = ['Connection: Upgrade', 'Upgrade: SPDY/3.1']
const web = '/k8s-proxy/api/v1/namespaces/web'

const job = { kind: 'ci_job', id: '5', name: 'ada', project: '3', job: '900', pipeline: '90' }
const user = { kind: 'personal_access_token', id: '5', name: 'ada' }

async function* upgraded({ messages }: ClusterRequest): AsyncGenerator<Uint8Array, void, void> {
  yield head(
    101,
    [
      ['Upgrade', ['websocket']],
      ['Connection', ['Upgrade']],
    ],
    'Switching Protocols',
  )
  yield trailer
  for (let next = await messages.next(); !next.done; next = await messages.next())
    if (next.value.kind === 'upgradeData') yield encodeHttpResponse.upgradeData(Buffer.from('four'))
}

/** Answers by words in the path. */
const cluster: Cluster = async function* (request) {
  const { header, body } = request
  const is = (word: string) => header.urlPath.includes(word)
  if (is('not-connected')) throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 })
  if (is('lost')) throw new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })
  if (is('forbidden')) {
    yield head(403)
    yield data('no')
    yield trailer
    return
  }
  if (/\/(exec|attach|portforward)$/.test(header.urlPath)) return yield* upgraded(request)
  await body()
  yield head(header.method === 'POST' ? 201 : 200, [['Content-Type', ['application/json']]])
  yield data('{"kind":"List"}\n')
  yield trailer
}

async function start(
  t: Test,
  options: Partial<AccessLogOptions> = {},
  answer = cluster,
  components: Partial<KubernetesServerComponents> = {},
) {
  const access = new AccessLines(options)
  const requests: ClusterRequest[] = []
  const forward = clusterForward((request) => {
    requests.push(request)
    return answer(request)
  })
  const started = await startServer(
    async (call) => {
      call.observer?.takenBy('kas-1')
      return await forward(call)
    },
    {},
    undefined,
    {
      accessLog: access.log,
      webSocketTokens: new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock }),
      endpoints: [
        {
          path: '/gitops/state',
          methods: ['GET'],
          serve: async () => ({ status: 200, mediaType: 'application/json', body: Buffer.from('{}') }),
        },
        {
          path: '/agents',
          methods: ['GET'],
          admit: async () => ({
            user: { id: 5n, username: 'ada' },
            answer: async () => ({ status: 200, mediaType: 'application/json', body: Buffer.from('{}') }),
          }),
        },
      ],
      ...components,
    },
  )
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const open = async () => {
    const client = await RawClient.open(started.port)
    t.teardown(() => client.close())
    return client
  }
  return { ...started, access, requests, open }
}

const known = { agent_id: '42', address: '127.0.0.1', entry: 'kas-0', class: 'read', event: 'end' }
const held = { ...known, holder: 'kas-1' }
const asked = (line: string, body?: string) => (body === undefined ? [line] : [line, body])

interface Case {
  readonly request: readonly string[]
  readonly headers?: readonly string[]
  readonly line: Partial<Record<keyof AccessLine, unknown>>
}

const pods = { resource: 'pods', namespace: 'web' }
/** each case uses a connection of its own */
const cases: Readonly<Record<string, Case>> = {
  get: {
    request: asked(`GET ${web}/pods/a`),
    line: { ...pods, verb: 'get', name: 'a', status: 200, outcome: 'answered', sent: 16, received: 0 },
  },
  list: {
    request: asked(`GET ${web}/pods?labelSelector=a%3Db&limit=5`),
    line: { ...pods, verb: 'list', label_selector: 'a=b' },
  },
  'list, all namespaces': { request: asked('GET /k8s-proxy/api/v1/pods'), line: { verb: 'list', resource: 'pods' } },
  'list by name': {
    request: asked(`GET ${web}/pods?fieldSelector=metadata.name%3Dx`),
    line: { verb: 'list', name: 'x', field_selector: 'metadata.name=x' },
  },
  head: { request: asked(`HEAD ${web}/pods/a`), line: { verb: 'get', name: 'a', sent: 0 } },
  create: {
    request: asked(`POST ${web}/pods`, 'hello'),
    line: { ...pods, class: 'write', verb: 'create', status: 201, received: 5 },
  },
  update: { request: asked(`PUT ${web}/pods/a`, '{}'), line: { class: 'write', verb: 'update', name: 'a' } },
  patch: {
    request: asked('PATCH /k8s-proxy/apis/apps/v1/namespaces/web/deployments/d', '{}'),
    line: { class: 'write', verb: 'patch', group: 'apps', resource: 'deployments' },
  },
  scale: {
    request: asked('PATCH /k8s-proxy/apis/apps/v1/namespaces/web/deployments/d/scale', '{}'),
    line: { class: 'write', subresource: 'scale' },
  },
  delete: { request: asked(`DELETE ${web}/pods/a`), line: { class: 'write', verb: 'delete', name: 'a' } },
  deletecollection: {
    request: asked(`DELETE ${web}/pods?labelSelector=a`),
    line: { class: 'write', verb: 'deletecollection', label_selector: 'a' },
  },
  'Secret, read': {
    request: asked(`GET ${web}/secrets/s`),
    line: { class: 'secret', verb: 'get', resource: 'secrets', name: 's' },
  },
  'Secrets, listed': { request: asked('GET /k8s-proxy/api/v1/secrets'), line: { class: 'secret', verb: 'list' } },
  'Secret, made': {
    request: asked(`POST ${web}/secrets`, '{}'),
    line: { class: 'write', verb: 'create', resource: 'secrets' },
  },
  log: { request: asked(`GET ${web}/pods/a/log`), line: { verb: 'get', subresource: 'log' } },
  'proxy, read': {
    request: asked(
      `GET ${web}/services/prometheus:9090/proxy/api/v1/query?query=planted-query&labelSelector=planted-selector`,
    ),
    line: { verb: 'get', resource: 'services', subresource: 'proxy', name: 'prometheus:9090' },
  },
  'proxy, changed': {
    request: asked(`POST ${web}/services/s/proxy/planted-path`, 'planted-body'),
    line: { class: 'exec', verb: 'create', subresource: 'proxy', name: 's' },
  },
  'proxy of old': {
    request: asked('GET /k8s-proxy/api/v1/proxy/namespaces/web/pods/a/planted-path'),
    line: { verb: 'proxy', resource: 'pods', name: 'a' },
  },
  version: { request: asked('GET /k8s-proxy/version?planted-query'), line: { verb: 'get', path: '/version' } },
  discovery: { request: asked('GET /k8s-proxy/apis/apps/v1'), line: { verb: 'get', path: '/apis/apps/v1' } },
  'a job': { request: asked(`GET ${web}/pods`), headers: [asJob], line: { caller: job, as: 'gitlab:ci_job:900' } },
  'the agent itself': { request: asked(`GET ${web}/pods`), headers: [asAgent], line: { caller: user, as: undefined } },
  'a page': { request: asked(`GET ${web}/pods`), headers: page, line: { caller: { ...user, kind: 'session_cookie' } } },
  'a user agent': {
    request: asked(`GET ${web}/pods`),
    headers: [asUser, `User-Agent: kubectl/v1 ${'x'.repeat(10_000)}`],
    line: { user_agent: /^kubectl\/v1 x{245}…$/ },
  },
  'refused by the cluster': {
    request: asked(`DELETE ${web}/pods/forbidden`),
    line: { class: 'refusal', verb: 'delete', status: 403, outcome: 'answered', reason: undefined },
  },
  'not connected': {
    request: asked(`POST ${web}/pods/not-connected`, '{}'),
    line: { class: 'write', status: 502, outcome: 'failed', reason: 'AGENT_NOT_CONNECTED' },
  },
  lost: {
    request: asked(`POST ${web}/pods/lost`, '{}'),
    line: { class: 'write', status: 502, reason: 'TUNNEL_LOST', delivery: 'maybe' },
  },
  "kas' own": {
    request: asked('GET /k8s-proxy/gitops/state'),
    line: { verb: 'get', path: '/gitops/state', outcome: 'endpoint', sent: 2, holder: undefined },
  },
  "a user's own": {
    request: asked('GET /k8s-proxy/agents'),
    line: { verb: 'get', path: '/agents', outcome: 'endpoint', as: undefined, agent_id: undefined, holder: undefined },
  },
  'a sign-in': {
    request: asked('GET /k8s-proxy/watch?kas-websocket-token-request=true'),
    headers: page,
    line: {
      event: 'sign_in',
      class: 'session',
      caller: { ...user, kind: 'session_cookie' },
      path: '/watch',
      outcome: 'token',
      holder: undefined,
    },
  },
  'not served': {
    request: asked('POST /k8s-proxy/gitops/state'),
    line: {
      event: 'refused',
      class: 'refusal',
      reason: 'METHOD_NOT_ALLOWED',
      verb: 'post',
      agent_id: undefined,
      caller: undefined,
      as: undefined,
      holder: undefined,
    },
  },
  'names with line ends and escapes': {
    request: asked(`GET ${web}/pods/%0A%7B%1B%5B2J%E2%80%AE`),
    line: { name: '\n{\u001b[2J\u202e' },
  },
  'a name of 20,000 characters': {
    request: asked(`GET ${web}/pods/${'n'.repeat(20_000)}`),
    line: { name: `${'n'.repeat(253)}…` },
  },
  'an impersonated user of 20,000 characters': {
    request: asked(`GET ${web}/pods`),
    headers: ['Authorization: Bearer pat:42:long'],
    line: { caller: { ...user, name: `${'u'.repeat(253)}…` }, as: `gitlab:user:${'u'.repeat(241)}…` },
  },
}

t.test('a line each, every field right', async (t) => {
  for (const [name, { request, headers = [asUser], line }] of Object.entries(cases)) {
    const { access, open, requests } = await start(t, all)
    const client = await open()
    const [target = '', body] = request
    const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
    client.request(target, ...headers, 'Audit-ID: planted-audit-id', 'Connection: close', ...length)
    if (body !== undefined) client.write(body)
    await client.toEnd()
    const [found, ...more] = await access.count(1)
    t.match(found, { ...held, as: 'gitlab:user:ada', caller: user, ...line }, name)
    for (const [field, value] of Object.entries({ ...held, as: '', ...line }))
      if (value === undefined) t.notOk(found && field in found, `${name}: ${field}`)
    t.strictSame(more, [], name)
    t.notMatch(access.text, /planted|Bearer|_gitlab_kas/, name)
    t.match(access.text, /^[ -~…]+\n$/, `${name}: it steers no terminal`)
    for (const { header } of requests)
      t.strictSame(
        header.header.find(([each]) => each === 'Audit-Id'),
        ['Audit-Id', [found?.id]],
        name,
      )
  }
})

t.test('bad input: an Audit-ID of the caller is in no log and goes no further', async (t) => {
  const own = 'planted-audit-id'
  for (const headers of [
    [`Audit-ID: ${own}`],
    [`audit-id: ${own}`, `AUDIT-ID: ${own}-2`],
    [`Audit-ID: ${own}`, 'Connection: close, Audit-ID'],
    [`Audit-ID: ${'x'.repeat(10_000)}${own}`],
    [`Audit-ID: \xff${own}\xc3`],
    ['Audit-ID:'],
  ]) {
    const name = headers.join(' | ').slice(0, 80)
    const { access, open, requests } = await start(t, all)
    const client = await open()
    await client.request(`DELETE ${web}/pods/a`, asUser, ...headers, 'Connection: close').toEnd()
    const [line] = await access.count(1)
    t.match(line?.id, /^[0-9a-f-]{36}$/, name)
    const ids = requests.map(({ header }) => header.header.filter(([each]) => each.toLowerCase() === 'audit-id'))
    t.strictSame(ids, [[['Audit-Id', [line?.id]]]], name)
    t.notOk(
      JSON.stringify([requests, access.text], (_, each) => (typeof each === 'bigint' ? 0 : each)).includes(own),
      name,
    )
  }
})

t.test('bad input: user agents with line ends, escapes, invalid UTF-8 and 64 KiB', async (t) => {
  for (const [sent, said] of [
    ['k\xff\xfe\xc3(', 'k\u00ff\u00fe\u00c3('],
    ['k\u001b[2J', undefined],
    ['k'.repeat(60_000), `${'k'.repeat(256)}…`],
    ['k'.repeat(1_100_000), undefined],
  ] as const) {
    const { access, open } = await start(t)
    const client = await open()
    client.request(`DELETE ${web}/pods/a`, asUser, `User-Agent: ${sent}`, 'Connection: close')
    await client.toEnd()
    const [line] = await access.count(1)
    t.equal(line?.user_agent, said, sent.slice(0, 10))
    // refused by node's parser
    if (said === undefined) t.match(line, { event: 'refused', reason: /BAD_REQUEST|HEAD_TOO_LARGE/ })
    t.notOk(hasControls(access.text.trimEnd()), 'it steers no terminal')
  }
})

t.test('bad input: names and commands with line ends, escapes, invalid UTF-8 and 64 KiB', async (t) => {
  const hostile = '%0A%7B%22event%22%3A%22end%22%7D%1B%5B2J%E2%80%AE'
  const shown = '\n{"event":"end"}\u001b[2J\u202e'
  const lines: Readonly<Record<string, object>> = {
    [`DELETE ${web}/pods/${hostile}`]: { name: shown, status: 200 },
    [`DELETE /k8s-proxy/api/v1/namespaces/${hostile}/pods?labelSelector=${hostile}`]: {
      namespace: shown,
      label_selector: shown,
    },
    [`DELETE ${web}/${hostile}/a/${hostile}`]: { resource: shown, subresource: shown },
    [`POST /k8s-proxy/${hostile}`]: { path: `/${shown}`, verb: 'post' },
    [`DELETE ${web}/pods/%FF%FE`]: { event: 'refused', reason: 'BAD_REQUEST', status: 400 },
    [`DELETE ${web}/pods/${'n'.repeat(60_000)}`]: { name: `${'n'.repeat(253)}…` },
    [`DELETE ${web}/pods/${'n'.repeat(1_100_000)}`]: { event: 'refused', reason: 'HEAD_TOO_LARGE', status: 431 },
    [`POST ${web}/pods/a/exec?command=${hostile}&command=x`]: { program: shown, arguments: 1 },
    [`POST ${web}/pods/a/exec?command=${'w'.repeat(60_000)}`]: { program: `${'w'.repeat(256)}…`, arguments: 0 },
    [`POST ${web}/pods/a/exec?${Array.from({ length: 900 }, (_, i) => `command=${hostile}${i}`).join('&')}`]: {
      program: `${shown}0`,
      arguments: 899,
    },
    [`POST ${web}/pods/a/exec?${Array.from({ length: 3000 }, (_, i) => `command=${hostile}${i}`).join('&')}`]: {
      program: `${shown}0`,
      arguments: 2999,
    },
    [`POST ${web}/pods/a/exec?command=%FF`]: { event: 'refused', reason: 'BAD_REQUEST' },
  }
  for (const [request, line] of Object.entries(lines)) {
    const { access, open } = await start(t)
    const client = await open()
    client.request(request, asUser, 'Content-Length: 0', 'Connection: close')
    await client.toEnd()
    await access.log.stop()
    const name = request.slice(0, 80)
    t.match(await access.count(1), [line], name)
    t.equal(access.lines.length, 1, name)
    t.match(access.text, /^[ -~…]+\n$/, `${name}: one line, which steers no terminal`)
  }
})

t.test('bad input: a clock that jumps', async (t) => {
  const set = Date.now
  t.teardown(() => {
    Date.now = set
  })
  for (const jump of [-3_600_000, 3_600_000]) {
    Date.now = set
    const { access, open } = await start(t)
    const client = await open()
    client.request(`GET ${web}/pods/a/exec?command=sh`, asUser, ...websocket)
    await client.until(/101/)
    await access.count(1)
    Date.now = () => set() + jump
    client.socket.end()
    const [begun, ended] = await access.count(2)
    const apart = Date.parse(ended?.time ?? '') - Date.parse(begun?.time ?? '')
    t.ok(Math.abs(apart - jump) < 60_000, 'its times are those of the clock')
    t.ok(ended?.ms !== undefined && ended.ms >= 0 && ended.ms < 60_000, 'how long it took is not measured by it')
  }
})

t.test('what lasts has a line at its begin too', async (t) => {
  const exec = { class: 'exec', program: 'sh', arguments: 2, subresource: 'exec' }
  const command = 'command=sh&command=-c&command=planted-argument&stdin=true'
  const lasting: Readonly<Record<string, readonly [request: string, headers: readonly string[], line: object]>> = {
    'exec, WebSocket': [`GET ${web}/pods/a/exec?${command}`, websocket, { ...exec, verb: 'get' }],
    'exec, SPDY': [`POST ${web}/pods/a/exec?${command}`, spdy, { ...exec, verb: 'create' }],
    attach: [`POST ${web}/pods/a/attach`, spdy, { class: 'exec', subresource: 'attach' }],
    'port-forward': [`GET ${web}/pods/a/portforward`, websocket, { class: 'exec', subresource: 'portforward' }],
  }
  for (const [name, [request, headers, line]] of Object.entries(lasting)) {
    const { access, open } = await start(t)
    const client = await open()
    client.request(request, asUser, ...headers)
    await client.until(/101 Switching Protocols/)
    const [begun] = await access.count(1)
    t.match(begun, { ...held, ...line, event: 'begin', status: 101 }, name)
    t.notOk(begun && 'ms' in begun, name)
    client.write('some bytes')
    await client.until(/four/)
    client.socket.end()
    const [, ended, ...more] = await access.count(2)
    t.match(ended, { ...held, ...line, event: 'end', id: begun?.id, received: 10, sent: 4, outcome: 'upgraded' }, name)
    t.strictSame(more, [], name)
    t.notMatch(access.text, /planted/, name)
  }
})

t.test('a watch and a followed log, and a caller who leaves', async (t) => {
  const forever: Cluster = async function* ({ call }) {
    yield head(200, [['Content-Type', ['application/json']]])
    yield data('{"type":"ADDED"}\n')
    await new Promise((resolve) => call.signal.addEventListener('abort', resolve))
  }
  for (const [path, line] of [
    ['pods?watch=1', { verb: 'watch', class: 'watch' }],
    ['secrets?watch=1', { verb: 'watch', class: 'secret' }],
    ['pods/a/log?follow=true', { verb: 'get', class: 'watch', subresource: 'log' }],
  ] as const) {
    const { access, open } = await start(t, {}, forever)
    const client = await open()
    client.request(`GET ${web}/${path}`, asUser)
    await client.until(/ADDED/)
    t.match(await access.count(1), [{ ...held, ...line, event: 'begin', status: 200 }], path)
    client.socket.destroy()
    t.match((await access.count(2))[1], { ...line, event: 'end', outcome: 'left', delivery: 'maybe', sent: 17 }, path)
  }
})

t.test('a stream that is refused has its end alone', async (t) => {
  const { access, open } = await start(t)
  const client = await open()
  client.request(`GET ${web}/pods/forbidden/exec?command=sh`, asUser, ...websocket)
  await client.toEnd()
  t.match(await access.count(1), [{ event: 'end', class: 'refusal', status: 403, program: 'sh', arguments: 0 }])
  t.equal(access.lines.length, 1)
})

t.test('the whole command, where that is wanted', async (t) => {
  const { access, open } = await start(t, { execCommand: 'full' })
  const client = await open()
  const words = ['sh', '-c', 'x'.repeat(5000), 'more']
  client.request(`GET ${web}/pods/a/exec?${words.map((word) => `command=${word}`).join('&')}`, asUser, ...websocket)
  await client.until(/101/)
  const [begun] = await access.count(1)
  t.strictSame(begun?.command, ['sh', '-c', `${'x'.repeat(4092)}…`, '…'])
  t.equal(begun?.arguments, 3)
})

t.test('by default reads have none', async (t) => {
  const { access, open } = await start(t)
  for (const request of [`GET ${web}/pods`, 'GET /k8s-proxy/version', `DELETE ${web}/pods/a`]) {
    const client = await open()
    client.request(request, asUser, 'Connection: close')
    await client.toEnd()
  }
  t.match(await access.count(1), [{ verb: 'delete' }])
  t.equal(access.lines.length, 1)
})

t.test('strangers: the first refusal of an address, whatever it is, and then a number', async (t) => {
  const refused: Readonly<Record<string, readonly [request: string, headers: readonly string[], line: object]>> = {
    'no credentials': [`GET ${web}/pods`, [], { reason: 'CREDENTIALS_INVALID', status: 401, verb: 'list' }],
    'an unknown token': [
      `GET ${web}/pods`,
      ['Authorization: Bearer pat:42:planted-token'],
      { reason: 'USER_UNAUTHORIZED', agent_id: '42' },
    ],
    'an unknown job': [
      `GET ${web}/pods`,
      ['Authorization: Bearer ci:42:planted-token'],
      { reason: 'JOB_TOKEN_UNAUTHORIZED' },
    ],
    'another path': ['GET /planted/api', [asUser], { reason: 'PREFIX_MISSING', status: 400 }],
    'a foreign page': [
      `GET ${web}/pods`,
      ['Origin: https://evil.example.com'],
      { reason: 'foreign_origin', status: 403 },
    ],
    'no HTTP': ['GET', [], { reason: 'BAD_REQUEST' }],
  }
  for (const [name, [request, headers, line]] of Object.entries(refused)) {
    const { access, open } = await start(t)
    for (let i = 0; i < 3; i++) {
      const client = await open()
      client.request(request, ...headers, 'Connection: close')
      await client.toEnd()
    }
    await access.log.stop()
    const [first, others, ...more] = await access.count(2)
    t.match(first, { event: 'refused', class: 'refusal', address: '127.0.0.1', entry: 'kas-0', ...line }, name)
    t.notOk(first && 'caller' in first, name)
    t.match(others, { event: 'refused', count: 2, address: '127.0.0.1' }, name)
    t.strictSame(more, [], name)
    t.notMatch(access.text, /planted|Bearer/, name)
  }
})

t.test('who is known and refused is named, each time', async (t) => {
  const refused: Readonly<Record<string, readonly [request: string, headers: readonly string[], line: object]>> = {
    'a user': [
      `GET ${web}/pods`,
      ['Authorization: Bearer pat:42:refused'],
      { caller: user, reason: 'USER_UNAUTHORIZED', status: 401, verb: 'list', agent_id: '42' },
    ],
    'a page': [
      `DELETE ${web}/pods/a`,
      ['Cookie: _gitlab_kas=refused', 'Gitlab-Agent-Id: 42', 'X-Csrf-Token: planted-csrf'],
      { caller: { ...user, kind: 'session_cookie' }, reason: 'USER_UNAUTHORIZED', status: 401, verb: 'delete' },
    ],
    'a job': [
      `GET ${web}/pods`,
      ['Authorization: Bearer ci:42:refused'],
      { caller: job, reason: 'AGENT_NOT_ALLOWED', status: 403 },
    ],
    'a job, of another agent': [
      `GET ${web}/pods/a/exec?command=sh&command=planted`,
      ['Authorization: Bearer ci:7:good', ...websocket],
      { caller: job, reason: 'AGENT_NOT_ALLOWED', status: 403, agent_id: '7', program: 'sh' },
    ],
  }
  for (const [name, [request, headers, line]] of Object.entries(refused)) {
    const { access, open, requests } = await start(t)
    for (let i = 0; i < 3; i++) {
      const client = await open()
      client.request(request, ...headers, 'Connection: close')
      await client.toEnd()
    }
    await access.log.stop()
    const lines = await access.count(3)
    t.equal(lines.length, 3, `${name}: a line each`)
    for (const each of lines) {
      t.match(each, { event: 'end', class: 'refusal', outcome: 'failed', delivery: 'none', ...line }, name)
      t.notOk('as' in each || 'holder' in each, name)
    }
    t.strictSame(requests, [], name)
    t.notMatch(access.text, /planted|Bearer/, name)
  }
})

t.test('each watch over a WebSocket of pages is a call of its own', async (t) => {
  const watched: Cluster = async function* ({ header, call }) {
    if (header.urlPath.includes('forbidden')) {
      yield head(403)
      yield data('{"message":"no"}')
      yield trailer
      return
    }
    yield head(200, [['Content-Type', ['application/json']]])
    yield data('{"type":"ADDED","object":{}}\n')
    await new Promise((resolve) => call.signal.addEventListener('abort', resolve))
  }
  const { access, requests, port } = await start(t, {}, watched)
  const client = await WatchClient.open(t, port, {
    headers: { Authorization: 'Bearer pat:42:as-user', 'User-Agent': 'a page' },
  })
  client.watch('a', { namespace: 'web' })
  await client.next()
  client.watch('b', { namespace: 'forbidden' })
  await client.next()
  client.send({ type: 'unwatch', watch_id: 'a' })
  const lines = [...(await access.count(4))]
  client.socket.close()
  lines.push(...(await access.count(5)).slice(4))
  const [socket, begun, refused, ended, closed] = lines
  t.match(socket, { event: 'begin', class: 'watch', path: '/watch', status: 101, user_agent: 'a page' })
  t.match(begun, {
    event: 'begin',
    class: 'watch',
    verb: 'watch',
    resource: 'pods',
    namespace: 'web',
    caller: user,
    as: 'gitlab:user:ada',
    holder: 'kas-1',
  })
  t.match(refused, { event: 'end', class: 'refusal', status: 403, namespace: 'forbidden' })
  t.match(ended, { event: 'end', class: 'watch', id: begun?.id, outcome: 'left' })
  t.match(closed, { event: 'end', path: '/watch', id: socket?.id, outcome: 'upgraded' })
  t.ok((closed?.received ?? 0) > 100)
  const ids = requests.map(({ header }) => header.header.find(([name]) => name === 'Audit-Id')?.[1][0])
  t.strictSame(ids, [begun?.id, refused?.id])
})

t.test('a WebSocket of views', async (t) => {
  const { access, port } = await start(t, {}, cluster, {
    endpoints: [viewsEndpoint({ open: () => ({ close: () => undefined }) as never })],
  })
  const client = await ViewsClient.open(t, port, { headers: { Authorization: 'Bearer pat:42:as-user' } })
  client.send({
    type: 'open',
    id: 1,
    agent: '42',
    view: 'list',
    objects: [{ kind: 'deploy' }],
    scope: { namespaces: ['shop'] },
  })
  const looked = { class: 'watch', path: '/views', status: 101, caller: user, view: 'list deploy in shop' }
  t.match(await access.count(1), [{ event: 'begin', ...looked }])
  client.view(2).view(3)
  client.socket.close()
  const [begun, ended] = await access.count(2)
  const all = { path: '/views', id: begun?.id, outcome: 'upgraded', view: 'list deploy in shop; tree' }
  t.match(ended, { event: 'end', class: 'watch', ...all }, 'what is looked at again is named once')
})

t.test('what a front takes to another replica has its line there', async (t) => {
  const { access, open, requests } = await start(t, all, cluster, { redirect: { locationFor: () => '@kas-1' } })
  const client = await open()
  client.request(`GET ${web}/pods`, asUser)
  await client.until(/X-Accel-Redirect: @kas-1/)
  client.text = ''
  client.request(`DELETE ${web}/pods/a`, asUser, 'Content-Length: 2').write('{}')
  await client.until(/"List"/)
  t.match(await access.count(1), [{ verb: 'delete' }])
  t.equal(access.lines.length, 1)
  t.equal(requests.length, 1)
})
