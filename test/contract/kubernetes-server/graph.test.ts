import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { UserGrant } from '../../../src/kas/directory/directory.ts'
import type { GraphOptions } from '../../../src/kas/modules/views/graph/graph-endpoint.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import { eventually } from '../../support/eventually.ts'
import { defaultRequest } from '../../support/graph/strict-graph.ts'
import { GraphClient, graphProtocol } from './graph-client.ts'
import { directoryWithBob } from './start-server.ts'
import { startViews } from './views-ground.ts'
import { tokenProtocol } from './watch-client.ts'

/** GitLab's graph of an agent's cluster; the test plays the agent (doc/reference/graph.md). */

const asUser = { Authorization: 'Bearer pat:42:as-user' }

async function start(t: Test, limits: Partial<KubernetesLimits> = {}, graph: Partial<GraphOptions> = {}) {
  const ground = await startViews(t, limits, graph)
  const { port, follow } = ground
  const open = (headers: Record<string, string> = asUser) => GraphClient.open(t, port, { headers })
  /** Opens a client whose request has reached the agent. The agent then sends updates of its only view. */
  const drawn = async () => {
    const client = (await open()).ask({ queries: [{ include: {} }] })
    const agent = await follow()
    await agent.step()
    let seq = 0
    const say = async (update: object, from = agent) => {
      seq = 'seq' in update ? (update.seq as number) : seq + 1
      from.say({ view: 1, seq, update: JSON.stringify({ ...update, seq }) })
      return await from.step()
    }
    return { client, agent, say }
  }
  return { ...ground, open, drawn }
}

const deployment = [0, 'apps', 'v1', 'deployments', 'shop', 'web'] as const
const pod = (id: number, name = `p${id}`) => [id, '', 'v1', 'pods', 'shop', name] as const

// wire: graph.protocol, graph.request, graph.answer
t.test('a request, and what it is answered with', async (t) => {
  const { open, follow } = await start(t)
  const client = (await open()).ask(defaultRequest)
  t.equal(client.socket.protocol, graphProtocol)
  const agent = await follow()
  t.equal(await agent.step(), `1 open gitlab:user:ada {"view":"graph","graph":${JSON.stringify(defaultRequest)}}`)
  const svx = [deployment, pod(1), [2, '', 'v1', 'nodes', '', 'n1']]
  agent.say({
    view: 1,
    seq: 1,
    update: JSON.stringify({
      seq: 1,
      at: 5,
      svx,
      sarc: [
        [1, 0, 'or'],
        [1, 2, 'r', 1],
      ],
    }),
  })
  t.equal(await agent.step(), '1 taken 1')
  const web = { g: 'apps', v: 'v1', r: 'deployments', ns: 'shop', n: 'web' }
  const p1 = { v: 'v1', r: 'pods', ns: 'shop', n: 'p1' }
  const node = { v: 'v1', r: 'nodes', n: 'n1' }
  await eventually(() => client.texts.length === 1 || Promise.reject(new Error('no answer')))
  t.strictSame(JSON.parse(client.texts[0] as string), {
    actions: [
      { svx: { vx: web } },
      { svx: { vx: p1 } },
      { svx: { vx: node } },
      { sarc: { s: p1, d: web, t: 'or' } },
      { sarc: { s: p1, d: node, t: 'r', a: { e: true } } },
    ],
  })
  agent.say({ view: 1, seq: 2, update: '{"seq":2,"darc":[[1,2,"r"],[1,0,"or"]],"dvx":[1]}' })
  t.equal(await agent.step(), '1 taken 2')
  await eventually(() => client.texts.length === 2 || Promise.reject(new Error('no answer')))
  t.strictSame(JSON.parse(client.texts[1] as string), {
    actions: [{ darc: { s: p1, d: node, t: 'r' } }, { darc: { s: p1, d: web, t: 'or' } }, { dvx: { vx: p1 } }],
  })
  client.socket.close()
  t.equal(await agent.step(), '1 close', 'a client that leaves ends its view')
})

t.test('the first answer comes, be it empty; warnings once, until they are gone', async (t) => {
  const { drawn } = await start(t)
  const { client, say } = await drawn()
  await say({})
  await eventually(() => client.texts.join() === '{"actions":[]}' || Promise.reject(new Error('no answer')))
  const refused = [
    ['secrets', ''],
    ['pods', 'shop'],
  ]
  const state = { is: 'stale', since: 1, why: 'Pod: cut', notFollowed: ['Secret'], refused, problems: ['a rule'] }
  await say({ state })
  await say({ state, cut: true })
  await say({ state: { is: 'live', since: 1 } })
  await say({ state })
  const { warnings } = client.graph
  await eventually(() => warnings.length === 11 || Promise.reject(new Error(`${warnings}`)))
  const five = [
    'stale: Pod: cut',
    'configuration: a rule',
    'forbidden: secrets cannot be listed',
    'forbidden: pods cannot be listed in shop',
    'unfollowed: Secret is not followed by the agent',
  ]
  t.strictSame(warnings.slice(0, 5), five)
  t.match(warnings[5], /^limit: there are more than 5000 objects/)
  t.strictSame(warnings.slice(6), five)
  t.equal(client.graph.answers, 4, 'what says nothing new is no answer')
})

t.test('who may not is refused; so is what is no WebSocket of this API', async (t) => {
  const { port, open } = await start(t)
  const refused = (headers: Record<string, string>, more = {}) =>
    GraphClient.open(t, port, { headers, ...more }).then(
      () => 'opened',
      (error: Error) => error.message,
    )
  t.match(await refused({}), /401/)
  t.match(await refused({ Authorization: 'Bearer pat:42:bad' }), /401/)
  t.match(await refused(asUser, { protocols: ['kas-views-v1'] }), /426/)
  const ask = (init: RequestInit) => fetch(`http://127.0.0.1:${port}/k8s-proxy/graph`, { headers: asUser, ...init })
  t.equal((await ask({ method: 'POST' })).status, 405)
  t.equal((await ask({})).status, 426)
  const { token } = (await (
    await fetch(`http://127.0.0.1:${port}/k8s-proxy/graph?kas-websocket-token-request=true`, { headers: asUser })
  ).json()) as { token: string }
  const client = await GraphClient.open(t, port, { protocols: [graphProtocol, tokenProtocol(token)] })
  t.equal(client.socket.protocol, graphProtocol, 'a browser opens it with a token')
  client.socket.close()
  ;(await open()).socket.close()
})

// wire: graph.error
t.test('what clients say wrongly ends them, in the words of the protocol', async (t) => {
  const { open, follow, follows, clock } = await start(t)
  const ends = async (say: (client: GraphClient) => void) => {
    const client = await open()
    say(client)
    const { code, reason } = await client.closed
    t.equal(client.failure, undefined)
    return { code, reason, error: client.graph.error }
  }
  for (const text of ['', '[', '[]', '{} {}', 'null', '"x"', `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`]) {
    const { code, error } = await ends(({ socket }) => socket.send(text))
    t.equal(code, 1008, text.slice(0, 10))
    t.strictSame(error, {
      code: 1008,
      code_string: 'StatusPolicyViolation',
      reason: 'the request is not one JSON object',
    })
  }
  t.match(await ends(({ socket }) => socket.send(Buffer.from('{}'))), { code: 1003, error: { code: 1003 } })
  const long = { queries: [{ include: { resource_selector_expression: 'x'.repeat(viewsBounds.maxQueryBytes) } }] }
  t.match(await ends((client) => client.ask(long)), { code: 1009 })
  t.equal(follows.all.length, 0, 'no agent hears of it')
  const silent = ends(() => clock.advance(10_000))
  t.match(await silent, { code: 1008, error: { reason: 'no request has come' } })
  const twice = ends((client) => client.ask(defaultRequest).ask(defaultRequest))
  t.match(await twice, { code: 1008, error: { reason: 'one request is answered, and no more' } })
  const refused = ends((client) => client.ask({ queries: [] }))
  const agent = await follow()
  const opened = await agent.step()
  const view = Number(opened.split(' ')[0])
  const reason = 'obj, annotations and json_path are not kept here'
  agent.say({ view, fault: { code: 'BAD_REQUEST', text: `Bad request: ${reason}` } })
  t.strictSame(await refused, {
    code: 1008,
    reason,
    error: { code: 1008, code_string: 'StatusPolicyViolation', reason },
  })
})

t.test('an agent that has no views, or is away', async (t) => {
  const { open, follow, world, clock, views } = await start(t)
  const room = (await open()).ask(defaultRequest)
  const agent = await follow()
  await agent.step()
  agent.say({ view: 1, fault: { code: 'TOO_MANY_STREAMS', text: 'Too many views of one user, allowed: 200' } })
  t.match(await room.closed, { code: 1013, reason: /Too many views of one user/ })
  await views.stop()
  const leaving = (await open()).ask(defaultRequest)
  t.match(await leaving.closed, { code: 1013 })
  const another = await start(t)
  another.world.serves = undefined
  another.follows.failure = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 })
  const away = (await another.open()).ask(defaultRequest)
  await eventually(() => another.views.views === 1 || Promise.reject(new Error('not yet')))
  another.clock.advance(20_000)
  await away.closed
  t.match(away.graph.error, { code: 1013, code_string: 'StatusTryAgainLater' })
  const none = await start(t)
  none.world.serves = false
  const stock = (await none.open()).ask(defaultRequest)
  t.match(await stock.closed, { code: 1011, reason: /does not serve views/ })
  t.ok(world.serves && clock)
})

t.test('where the agent begins anew, the client learns what differs', async (t) => {
  const { drawn, follow, follows, clock } = await start(t)
  const { client, agent, say } = await drawn()
  await say({
    svx: [deployment, pod(1), pod(2), pod(3)],
    sarc: [
      [1, 0, 'or'],
      [2, 0, 'or'],
      [3, 0, 'or', 1],
    ],
  })
  await eventually(() => client.graph.actions === 7 || Promise.reject(new Error('not yet')))
  agent.end(new KasError({ code: 'CANCELLED' }))
  await eventually(() => {
    clock.advance(100)
    return follows.all.length > 1 || Promise.reject(new Error('not followed again'))
  })
  clock.advance(1000)
  const next = await follow(1)
  t.match(await next.step(), /^1 resume gitlab:user:ada/)
  const again = [[7, ...deployment.slice(1)], [1, ...pod(3, 'p3').slice(1)], pod(9, 'p9')]
  await say({ seq: 1, svx: again, more: true }, next)
  t.equal(client.graph.actions, 7, 'not before all of it has come')
  await say(
    {
      sarc: [
        [1, 7, 'or'],
        [9, 7, 'or'],
      ],
      state: { is: 'live', since: 1 },
    },
    next,
  )
  await eventually(() => client.graph.vertices.size === 3 || Promise.reject(new Error('not yet')))
  t.strictSame(client.graph.names('pods'), ['p3', 'p9'])
  t.strictSame(client.graph.drawn(), ['pods/p3 -or> deployments/web', 'pods/p9 -or> deployments/web'])
  t.equal(client.graph.actions, 7 + 3 + 2 + 1 + 2, 'the Deployment stays')
  await say({ darc: [[1, 7, 'or']], dvx: [1] }, next)
  await eventually(() => client.graph.vertices.size === 2 || Promise.reject(new Error('not yet')))
  t.equal(client.failure, undefined)
})

t.test('an update that is none, or of what the client does not have, ends it before the client is told', async (t) => {
  const odd = [
    '{"seq":2,"darc":[[1,0,"or"],[1,0,"or"]]}',
    '{"seq":2,"darc":[[0,1,"or"]]}',
    '{"seq":2,"darc":[[1,0,"r"]]}',
    '{"seq":2,"dvx":[1]}',
    '{"seq":2,"dvx":[5]}',
    '{"seq":2,"svx":[[1,"","v1","pods","shop","x"]]}',
    '{"seq":2,"svx":[[2,"","v1","pods","shop"]]}',
    `{"seq":2,"svx":[[2,"","v1","pods","shop","${'x'.repeat(254)}"]]}`,
    '{"seq":2,"svx":[[2,"","v1","pods","shop","a\\"b"]]}',
    '{"seq":2,"svx":[[99999,"","v1","pods","shop","x"]]}',
    '{"seq":2,"sarc":[[1,9,"or"]]}',
    '{"seq":2,"sarc":[[1,0,"or"]]}',
    '{"seq":2,"sarc":[[1,0,"x"]]}',
    '{"seq":2,"sarc":[[1,0,"r",2]]}',
    '{"seq":2,"svx":{}}',
    '{"seq":2,"dvx":["1"]}',
    '{"seq":"2"}',
    '[]',
    '{"seq":2}}',
    `{"seq":2,"svx":${'['.repeat(1500)}${']'.repeat(1500)}}`,
  ]
  const { open, follow } = await start(t)
  const hello = JSON.stringify({ seq: 1, svx: [deployment, pod(1)], sarc: [[1, 0, 'or']] })
  const first = (await open()).ask(defaultRequest)
  const agent = await follow()
  const opened = await agent.step()
  t.match(opened, /^1 open/)
  agent.say({ view: 1, seq: 1, update: hello })
  await agent.step()
  for (const [i, update] of odd.entries()) {
    const client = (await open()).ask(defaultRequest)
    const view = Number((await agent.step()).split(' ')[0])
    agent.say({ view, seq: 1, update: hello })
    t.equal(await agent.step(), `${view} taken 1`)
    agent.say({ view, seq: 2, update })
    t.match(await client.closed, { code: 1011 }, update.slice(0, 60))
    t.match(client.graph.error, { code: 1011, code_string: 'StatusInternalError' })
    t.equal(client.failure, undefined, `${i}`)
    t.match(await agent.step(), / close$/)
  }
  agent.say({ view: 1, seq: 2, update: '{"seq":2,"darc":[[1,0,"or"]]}' })
  await eventually(() => first.graph.arcs.size === 0 || Promise.reject(new Error('not yet')))
})

t.test('what is kept of graphs has a bound, of one and of all of an agent', async (t) => {
  const { open, follow } = await start(t, {}, { maxBytes: 2000, maxAgentBytes: 3000 })
  const ask = async () => (await open()).ask(defaultRequest)
  const clients = [await ask()]
  const agent = await follow()
  const view = async () => Number((await agent.step()).split(' ')[0])
  const pods = (count: number) => JSON.stringify({ seq: 1, svx: Array.from({ length: count }, (_, i) => pod(i)) })
  agent.say({ view: await view(), seq: 1, update: pods(9) })
  await agent.step()
  clients.push(await ask())
  agent.say({ view: await view(), seq: 1, update: pods(15) })
  t.match(await clients[1]?.closed, { code: 1013 }, 'of one')
  await agent.step()
  clients.push(await ask())
  agent.say({ view: await view(), seq: 1, update: pods(13) })
  t.match(await clients[2]?.closed, { code: 1013 }, 'of all')
  await agent.step()
  clients[0]?.socket.close()
  t.equal(await agent.step(), '1 close')
  clients.push(await ask())
  agent.say({ view: await view(), seq: 1, update: pods(13) })
  t.match(await agent.step(), /taken 1/, 'what one leaves another may have')
})

t.test('callers share what is kept of graphs: the heaviest of who has most is closed, with the reason', async (t) => {
  const { open, follow, world } = await start(t, {}, { maxBytes: 3000, maxAgentBytes: 4000 })
  world.grant = directoryWithBob.grantUser
  const asBob = { Authorization: 'Bearer pat:42:bob' }
  const pods = (count: number) => JSON.stringify({ seq: 1, svx: Array.from({ length: count }, (_, i) => pod(i)) })
  const clients: GraphClient[] = []
  let agent: Awaited<ReturnType<typeof follow>> | undefined
  for (const [headers, count] of [
    [asUser, 5],
    [asUser, 15],
    [asBob, 10],
  ] as const) {
    clients.push((await open(headers)).ask(defaultRequest))
    agent ??= await follow()
    const view = Number((await agent.step()).split(' ')[0])
    agent.say({ view, seq: 1, update: pods(count) })
    const steps = [await agent.step()]
    if (headers === asBob) steps.push(await agent.step())
    t.ok(steps.includes(`${view} taken 1`), steps.join())
  }
  const reason = /^Too many bytes of graphs of this agent, allowed: 4000. You hold \d+ of them: end some/
  t.match(await clients[1]?.closed, { code: 1013, reason })
  for (const i of [0, 2]) t.equal(clients[i]?.socket.readyState, clients[i]?.socket.OPEN)
})

t.test('a large graph is written in pieces', async (t) => {
  const { drawn } = await start(t)
  const { client, say } = await drawn()
  const name = (id: number) => `p${id}-${'x'.repeat(240)}`
  for (let from = 0; from < 2500; from += 500)
    await say({ svx: Array.from({ length: 500 }, (_, i) => pod(from + i, name(from + i))), more: true })
  const arc = (i: number) => [i % 2500, ((i % 2500) + 1 + Math.floor(i / 2500)) % 2500, 'r']
  await say({ sarc: Array.from({ length: 7500 }, (_, i) => arc(i)) })
  await eventually(
    () => client.graph.arcs.size === 7500 || Promise.reject(new Error(`${client.graph.arcs.size} ${client.failure}`)),
  )
  t.ok(client.texts.every((text) => text.length < 128 * 1024))
  t.equal(client.failure, undefined)
})

t.test('WebSockets of views and graphs are counted together', async (t) => {
  const { open } = await start(t, { maxOwnSockets: 2 })
  const [one] = [await open(), await open()]
  await t.rejects(open(), { message: /429/ })
  one.socket.close()
  await one.closed
  ;(await eventually(() => open())).socket.close()
})

t.test('who may no longer is told; who is somebody else from now on sees that', async (t) => {
  const { drawn, world, clock, views } = await start(t)
  const { client, agent, say } = await drawn()
  await say({ svx: [deployment, pod(1)], sarc: [[1, 0, 'or']] })
  const other: UserGrant = { accessAs: { as: 'agent' }, configProjectId: 1n, user: { id: 5n, username: 'ada' } }
  world.grant = async () => other
  /**
   * Moves the clock until the event happens. kas asks the directory again within a minute; the client answers pings.
   */
  const until = async <T>(happens: Promise<T>): Promise<T> => {
    let hasHappened = false
    const noted = happens.finally(() => {
      hasHappened = true
    })
    await eventually(() => {
      if (!hasHappened) clock.advance(5000)
      return hasHappened || Promise.reject(new Error('not yet'))
    })
    return await noted
  }
  t.equal(await until(agent.step()), '1 close')
  t.match(await agent.step(), /^2 open agent /)
  agent.say({ view: 2, seq: 1, update: JSON.stringify({ seq: 1, svx: [[5, ...deployment.slice(1)]] }) })
  t.equal(await agent.step(), '2 taken 1')
  await eventually(() => client.graph.vertices.size === 1 || Promise.reject(new Error('not yet')))
  t.strictSame(client.graph.names('deployments'), ['web'])
  world.grant = async () => {
    throw new KasError({ code: 'USER_UNAUTHORIZED' })
  }
  t.match(await until(client.closed), { code: 1008, reason: 'Unauthorized' })
  t.match(client.graph.error, { code: 1008, reason: 'Unauthorized' })
  t.equal(client.failure, undefined)
  t.equal(views.views, 0)
})

t.test('a client that never reads: nothing is taken, and it is cut after 20 s', async (t) => {
  const { port, follow, clock, views } = await start(t)
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  const head = [
    'GET /k8s-proxy/graph HTTP/1.1',
    'Host: kas',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    `Sec-WebSocket-Protocol: ${graphProtocol}`,
    `Authorization: ${asUser.Authorization}`,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await new Promise((resolve) => socket.once('readable', resolve))
  socket.pause()
  socket.removeAllListeners('readable')
  const text = Buffer.from('{"queries":[{"include":{}}]}')
  socket.write(Buffer.concat([Buffer.of(0x81, 0x80 | text.length, 0, 0, 0, 0), text]))
  const agent = await follow()
  await agent.step()
  const svx = Array.from({ length: 700 }, (_, i) => pod(i, `p${i}-${'x'.repeat(200)}`))
  let taken = 0
  const next = async (seq: number) => {
    const update = seq % 2 === 1 ? { seq, svx } : { seq, dvx: svx.map(([id]) => id) }
    agent.say({ view: 1, seq, update: JSON.stringify(update) })
    if ((await agent.step()) !== `1 taken ${seq}`) return
    taken++
    await next(seq + 1)
  }
  const ended = next(1)
  let [seen, same] = [-1, 0]
  await eventually(() => {
    same = seen === taken && taken > 0 ? same + 1 : 0
    seen = taken
    return same >= 20 || Promise.reject(new Error('it still changes'))
  })
  t.equal(views.views, 1)
  clock.advance(20_000)
  await ended
  await eventually(() => views.views === 0 || Promise.reject(new Error('it is still open')))
  t.pass(`${taken} were taken by the system`)
})
