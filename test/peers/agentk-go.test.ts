import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Forward } from '../../src/call/call.ts'
import { KasError } from '../../src/lib/errors.ts'
import { type AgentkGo, withoutGo } from '../support/agentk-go.ts'
import { configurationCommit, schemes, startAgentsKas } from '../support/agents-kas.ts'
import { agentId } from '../support/agents-server.ts'
import { ClusterDouble, largeBytes } from '../support/cluster-double.ts'
import { eventually } from '../support/eventually.ts'
import { httpCall, httpText } from '../support/http-call.ts'

// kas with an agent in Go: grpc-go and a Go WebSocket library, which behave as a stock agent does.

interface Side {
  readonly forward: Forward
  readonly cluster: ClusterDouble
  readonly agent: AgentkGo
}

const suite: Record<string, (t: Test, side: Side) => Promise<void>> = {
  async 'GET, with headers and Via'(t, { forward }) {
    const answer = await httpText(forward, { agentId, path: '/api/v1/pods', header: { Accept: 'application/json' } })
    t.equal(answer.status, 200)
    t.same(answer.header.get('X-Answer'), ['one', 'two'])
    t.same(answer.header.get('Via'), ['1.1 gitlab-agent/v16.5.0/8daa08cc'])
    const seen = JSON.parse(answer.text)
    t.match(seen, { method: 'GET', url: '/api/v1/pods', bytes: 0, headers: { accept: 'application/json' } })
    t.match(seen.headers, { via: 'gRPC/1.0 gitlab-agent/v16.5.0/8daa08cc', 'transfer-encoding': undefined })
  },

  async 'the query as it was written stands beside the one that this agent reads'(t, { forward }) {
    const query: [string, string[]][] = [
      ['a', ['1', '2']],
      ['b', ['x y']],
    ]
    const answer = await httpText(forward, { agentId, path: '/q', more: { query, rawQuery: 'b=x%20y&a=1&a=2&' } })
    t.equal(JSON.parse(answer.text).url, '/q?a=1&a=2&b=x+y')
  },

  async 'a body, of known and of unknown length'(t, { forward }) {
    const body = randomBytes(3 * 1024 * 1024 + 17)
    const sha256 = createHash('sha256').update(body).digest('hex')
    for (const hideLength of [false, true]) {
      const answer = await httpText(forward, { agentId, path: '/body', method: 'POST', body, hideLength })
      t.match(JSON.parse(answer.text), {
        bytes: body.length,
        sha256,
        headers: hideLength ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(body.length) },
      })
    }
  },

  async 'impersonation, and not twice'(t, { forward }) {
    const extra = [{ key: 'agent.gitlab.com/id', val: ['7'] }]
    const impersonation = { username: 'ada', groups: ['one', 'two'], uid: 'u-1', extra }
    const answer = await httpText(forward, { agentId, path: '/', more: { impersonation } })
    t.match(JSON.parse(answer.text).headers, {
      'impersonate-user': 'ada',
      'impersonate-group': 'one, two',
      'impersonate-uid': 'u-1',
      'impersonate-extra-agent.gitlab.com%2fid': '7',
    })
    const header = { 'Impersonate-User': 'eve' }
    await t.rejects(httpText(forward, { agentId, path: '/', header, more: { impersonation } }), {
      grpcCode: 14,
      message: /^gRPC -> HTTP: nested impersonation is not supported/,
    })
  },

  async 'a long body back'(t, { forward }) {
    const answer = await httpCall(forward, { agentId, path: '/large' })
    let bytes = 0
    for await (const chunk of answer.data) bytes += chunk.length
    t.equal(bytes, largeBytes)
    t.equal((await answer.end).error, undefined)
  },

  async 'a watch, event by event'(t, { forward, cluster }) {
    const left = new AbortController()
    const answer = await httpCall(forward, { agentId, path: '/events', signal: left.signal })
    t.equal(answer.header?.statusCode, 200, 'the header comes before the first event')
    const data = answer.data[Symbol.asyncIterator]()
    for (let i = 0; i < 50; i++) {
      cluster.emitEvent(`event ${i}\n`)
      t.equal(Buffer.from((await data.next()).value as Uint8Array).toString(), `event ${i}\n`)
    }
    left.abort(new KasError({ code: 'CANCELLED' }))
    await data.next()
    t.equal((await answer.end).error?.code, 'CANCELLED')
  },

  async 'an upgrade, both ways'(t, { forward }) {
    const sent = randomBytes(500_000)
    async function* upgradeData() {
      for (let at = 0; at < sent.length; at += 32_768) yield sent.subarray(at, at + 32_768)
    }
    const header = { Upgrade: 'SPDY/3.1', Connection: 'upgrade' }
    const answer = await httpCall(forward, {
      agentId,
      path: '/exec',
      method: 'POST',
      header,
      upgradeData: upgradeData(),
    })
    t.equal(answer.header?.statusCode, 101)
    t.same(new Map(answer.header?.header).get('Connection'), ['upgrade'])
    const chunks: Uint8Array[] = []
    for await (const chunk of answer.data) chunks.push(chunk)
    const back = Buffer.concat(chunks)
    t.equal(back.subarray(0, 6).toString(), 'first,')
    t.ok(back.subarray(6).equals(sent), 'every byte came back after the half-close')
    t.equal((await answer.end).error, undefined)
  },

  async 'an upgrade that is refused'(t, { forward }) {
    const header = { Upgrade: 'SPDY/3.1', Connection: 'upgrade' }
    const answer = await httpText(forward, { agentId, path: '/refuse-upgrade', method: 'POST', header })
    t.match(answer, { status: 403, text: 'no\n' })
  },

  async 'a hundred calls at once'(t, { forward }) {
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => httpText(forward, { agentId, path: `/call/${i}` })),
    )
    t.same(
      answers.map(({ text }) => JSON.parse(text).url),
      Array.from({ length: 100 }, (_, i) => `/call/${i}`),
    )
  },

  async 'a body that ends too early'(t, { forward }) {
    const answer = await httpCall(forward, { agentId, path: '/short' })
    t.equal(answer.header?.statusCode, 200)
    for await (const _ of answer.data);
    t.match((await answer.end).error, { grpcCode: 14, message: /^gRPC -> HTTP: unexpected EOF/ })
  },

  async 'a caller who leaves'(t, { forward, cluster, agent }) {
    const left = new AbortController()
    const hanging = cluster.nextHanging()
    const answer = httpCall(forward, { agentId, path: '/hang', signal: left.signal })
    const { gone } = await hanging
    const from = agent.events.length
    left.abort(new KasError({ code: 'CANCELLED' }))
    t.equal((await (await answer).end).error?.code, 'CANCELLED')
    await gone // the API server sees it
    await agent.event('tunnel-closed', { code: 'Canceled' }, { from })
  },
}

for (const scheme of schemes) {
  // wire: transport.grpc, transport.grpcs, transport.ws, transport.wss, 8150.GetConfiguration, 8150.Register
  // wire: 8150.Connect, grpc.gzip, authority.encoded
  t.test(`over ${scheme}`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, server, registered, startAgent } = await startAgentsKas(t, scheme)
    const agent = await startAgent([`--api-server=${cluster.url}`])
    t.match(await agent.event('configuration'), { commit: configurationCommit, agentId: Number(agentId), projectId: 1 })
    await agent.event('registered')
    t.match(registered, [
      { agentMeta: { version: 'v16.5.0', podName: 'agentk-go', kubernetesVersion: { major: '1' } } },
    ])
    for (const [name, run] of Object.entries(suite)) await t.test(name, (t) => run(t, { forward, cluster, agent }))
    t.equal(agent.all('connected').length, 1, 'all of it over one connection')
    t.equal(server.connections.size, 1)
    t.same(agent.all('invalid-response'), [])
    t.same(agent.all('backing-off'), [])
    t.equal(await agent.stop(), 0)
  })
}

for (const [plain, inside] of [
  ['grpc', 'ws'],
  ['grpcs', 'wss'],
] as const) {
  // wire: transport.one-port
  t.test(`${plain} and ${inside} on one port, as two pods`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, startAgent } = await startAgentsKas(t, inside)
    const flags = [`--api-server=${cluster.url}`, '--min-idle=1', '--scale-up=0']
    const agents = [await startAgent(flags), await startAgent(flags, { scheme: plain })]
    for (const agent of agents) await agent.event('registered')
    const watches = [
      await httpCall(forward, { agentId, path: '/events' }),
      await httpCall(forward, { agentId, path: '/events' }),
    ]
    for (const agent of agents) t.equal(agent.all('active').length, 1, 'each has one of two calls')
    for (const watch of watches) await watch.data[Symbol.asyncIterator]().return?.(undefined)
  })
}

const generations: Record<string, string[]> = {
  '17.2: the token goes with the upgrade too': ['--version=v17.2.0', '--upgrade-token'],
  '18.5: no agent_meta in GetConfiguration': ['--version=v18.5.2', '--without-meta'],
  'messages that are not compressed': ['--compressor='],
  'no offer of compression in the upgrade': ['--offer-deflate=false'],
}
// wire: 8150.register.without-meta, ws.authorization, grpc.identity
for (const [name, generation] of Object.entries(generations)) {
  t.test(name, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, startAgent } = await startAgentsKas(t, 'ws')
    const agent = await startAgent([`--api-server=${cluster.url}`, ...generation])
    t.match(await agent.event('configuration'), { commit: configurationCommit })
    await agent.event('registered')
    const body = Buffer.from('body')
    t.equal(JSON.parse((await httpText(forward, { agentId, path: '/', method: 'PUT', body })).text).bytes, 4)
  })
}

for (const scheme of schemes) {
  // wire: ping.bdp
  t.test(
    `a new agent's first bodies, over ${scheme}: PINGs around data are no flood`,
    { skip: withoutGo },
    async (t) => {
      // windows are small at first: a body comes in many pieces, and grpc-go measures the connection around each
      const cluster = await ClusterDouble.start(t)
      for (const bytes of [150_000, 300_000, 600_000, 1_000_000]) {
        const { forward, startAgent } = await startAgentsKas(t, scheme)
        const agent = await startAgent([`--api-server=${cluster.url}`])
        const body = Buffer.alloc(bytes, 'x')
        const { text } = await httpText(forward, { agentId, path: '/', method: 'POST', body })
        t.equal(JSON.parse(text).bytes, bytes)
        t.equal(agent.all('connected').length, 1)
        await agent.kill()
      }
    },
  )
}

for (const scheme of ['grpc', 'wss'] as const) {
  // wire: find.burst, agentk.grow
  t.test(`500 calls at once against 2 idle tunnels, over ${scheme}`, { skip: withoutGo }, async (t) => {
    const cluster = await ClusterDouble.start(t)
    const { forward, startAgent } = await startAgentsKas(t, scheme)
    const agent = await startAgent([`--api-server=${cluster.url}`])
    await agent.event('registered')
    const calls = Array.from({ length: 500 }, (_, i) => httpText(forward, { agentId, path: `/${i}` }))
    const answers = await Promise.all(calls)
    t.same(new Set(answers.map(({ text }) => JSON.parse(text).url)).size, 500)
    t.equal(agent.all('connected').length, 1)
    t.same(agent.all('backing-off'), [])
  })

  // wire: ping.server
  t.test(`a quiet connection, over ${scheme}`, { skip: withoutGo }, async (t) => {
    const liveness = { idleSilenceMs: 50, idlePingTimeoutMs: 500 }
    const { server, startAgent } = await startAgentsKas(t, scheme, { liveness })
    const agent = await startAgent()
    await agent.event('registered')
    const [connection] = server.connections
    const { bytesRead } = connection?.session ?? { bytesRead: 0 }
    const pingBytes = 17
    await eventually(() => assert.ok((connection?.session.bytesRead ?? 0) > bytesRead + 3 * pingBytes)) // answers
    t.equal(server.connections.size, 1)
    agent.signal('SIGSTOP')
    await connection?.session.closed // without an answer kas gives it up, although no call runs
    agent.signal('SIGCONT')
    await agent.until(() => agent.all('connected').length === 2, 'a new connection')
  })
}
