import { connect } from 'node:net'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { UserGrant } from '../../../src/kas/directory/directory.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import { eventually } from '../../support/eventually.ts'
import type { ManualClock } from '../../support/manual-clock.ts'
import { ViewsClient, viewsProtocol } from './views-client.ts'
import { startViews } from './views-ground.ts'
import { tokenProtocol } from './watch-client.ts'

/** Views of an agent's cluster, over a WebSocket and by single requests (doc/guide/views.md). */

const asUser = { Authorization: 'Bearer pat:42:as-user' }

async function start(t: Test, limits: Partial<KubernetesLimits> = {}) {
  const ground = await startViews(t, limits)
  const { port } = ground
  const open = (headers: Record<string, string> = asUser) => ViewsClient.open(t, port, { headers })
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${port}/k8s-proxy${path}`, { headers: asUser, ...init })
  return { ...ground, open, ask }
}

t.test('a view: opened, updated, paged, closed', async (t) => {
  const { open, follow } = await start(t)
  const client = (await open()).view(7, { scope: { namespaces: ['shop'] }, limit: 5 })
  const agent = await follow()
  t.equal(await agent.step(), '1 open gitlab:user:ada {"view":"tree","scope":{"namespaces":["shop"]},"limit":5}')
  agent.say({ view: 1, seq: 1, update: '{"seq":1,"at":5,"rows":[{"n":"ü\\"]}"}]}' })
  t.strictSame(await client.next(), { type: 'update', id: 7, update: { seq: 1, at: 5, rows: [{ n: 'ü"]}' }] } })
  t.equal(await agent.step(), '1 taken 1')
  client.send({ type: 'page', id: 7, node: 'g:x', limit: 20 }).send({ type: 'page', id: 8, node: 'g:x', limit: 20 })
  t.equal(await agent.step(), '1 page g:x 20')
  client.send({ type: 'page', id: 7, node: 'g:x', limit: 20, offset: 40 })
  t.equal(await agent.step(), '1 page g:x 20 from 40')
  client.send({ type: 'close', id: 7 })
  t.equal(await agent.step(), '1 close')
  client.view(9)
  t.match(await agent.step(), /^2 open/)
  client.socket.close()
  t.equal(await agent.step(), '2 close', 'a client that leaves ends all')
})

t.test('who asks for what is so now says so beside the query, which the agent alone reads', async (t) => {
  const { open, follow } = await start(t)
  const client = await open()
  client.view(1, { fresh: true, objects: [{ kind: 'pods' }] })
  const agent = await follow()
  t.equal(await agent.step(), '1 open gitlab:user:ada {"view":"tree","objects":[{"kind":"pods"}]} fresh')
  client.view(2, { fresh: 1 })
  t.match(await client.next(), { id: 2, code: 'BAD_REQUEST', text: /fresh: true or false/ })
  client.send({ type: 'page', id: 1, node: 'x', limit: 1, offset: 1e9 })
  t.match(await client.next(), { id: 1, code: 'BAD_REQUEST', text: /offset: a whole number/ })
})

t.test('who calls is what the directory says, never a message', async (t) => {
  const { open, follow } = await start(t)
  const job = await open({ Authorization: 'Bearer ci:42:good' })
  job.view(1, { caller: { user: { username: 'root' } } })
  const agent = await follow()
  t.equal(await agent.step(), '1 open agent {"view":"tree","caller":{"user":{"username":"root"}}}')
  agent.say({ view: 1, fault: { code: 'BAD_REQUEST', text: 'Bad request: the key "caller" is not known' } })
  t.match(await job.next(), { type: 'error', id: 1, code: 'BAD_REQUEST', text: /"caller" is not known/ })
})

t.test('who may not is refused; so is what is no WebSocket of views', async (t) => {
  const { port, ask } = await start(t)
  const refused = (headers: Record<string, string>, more = {}) =>
    ViewsClient.open(t, port, { headers, ...more }).then(
      () => 'opened',
      (error: Error) => error.message,
    )
  t.match(await refused({}), /401/)
  t.match(await refused({ Authorization: 'Bearer pat:42:bad' }), /401/)
  t.match(await refused(asUser, { protocols: ['gitlab-agent-watch-api'] }), /426/)
  t.equal((await ask('/views', { method: 'POST' })).status, 405)
})

t.test('a browser opens it with a token', async (t) => {
  const { port, ask, follow } = await start(t)
  const { token } = (await (await ask('/views?kas-websocket-token-request=true')).json()) as { token: string }
  const client = await ViewsClient.open(t, port, { protocols: [viewsProtocol, tokenProtocol(token)] })
  t.equal(client.socket.protocol, viewsProtocol)
  client.view(1)
  t.match(await (await follow()).step(), /^1 open gitlab:user:ada/)
})

t.test('what clients say wrongly: of a view, it is told; else the WebSocket is closed', async (t) => {
  const { open, follow, follows } = await start(t)
  const client = await open()
  const fails = async (message: unknown) => {
    client.send(message)
    const { id, code, text } = await client.next()
    return `${id} ${code} ${text}`
  }
  t.match(await fails({ type: 'open', id: 1, agent: '43', view: 'tree' }), /1 BAD_REQUEST .*is for agent 42/)
  t.match(await fails({ type: 'open', id: 2, agent: '42' }), /2 BAD_REQUEST .*view/)
  client.view(3)
  const agent = await follow()
  t.match(await agent.step(), /^1 open/)
  t.match(await fails({ type: 'page', id: 3, node: 'x', limit: 1e9 }), /3 BAD_REQUEST .*limit/)
  t.equal(await agent.step(), '1 close', 'and the view has ended')
  t.equal(follows.all.length, 1)
  for (const text of ['[', '{"type":"open"}', '{"type":"reopen","id":1}']) {
    const odd = await open()
    odd.socket.send(text)
    t.match(await odd.closed, { code: 1008 }, text)
  }
  const binary = await open()
  binary.socket.send(Buffer.from('{}'))
  t.match(await binary.closed, { code: 1003 })
  const large = await open()
  large.view(1, { filter: { text: 'x'.repeat(viewsBounds.maxQueryBytes) } })
  t.match(await large.closed, { code: 1009 })
})

t.test('20 views over one WebSocket, 500 of one agent', async (t) => {
  const { open, views } = await start(t)
  const client = await open()
  for (let id = 0; id < viewsBounds.maxViewsPerSocket; id++) client.view(id)
  client.view(99)
  t.match(await client.next(), { id: 99, code: 'TOO_MANY_STREAMS' })
  client.view(5)
  client.send({ type: 'close', id: 0 }).view(100)
  const others = await Promise.all(Array.from({ length: 24 }, () => open()))
  for (const other of others) for (let id = 0; id < viewsBounds.maxViewsPerSocket; id++) other.view(id)
  const more = (await open()).view(1)
  await eventually(() => views.views === 500 || Promise.reject(new Error(`${views.views}`)))
  t.match(await more.next(), { id: 1, code: 'TOO_MANY_STREAMS', text: /500/ })
  client.socket.close()
  await eventually(() => views.views === 480 || Promise.reject(new Error(`${views.views}`)))
})

t.test('WebSockets of one agent are counted, those that failed are not', async (t) => {
  const { open, port } = await start(t, { maxOwnSockets: 2 })
  const odd = () => ViewsClient.open(t, port, { headers: asUser, protocols: ['other'] })
  for (let i = 0; i < 5; i++) await t.rejects(odd(), { message: /426/ })
  const [one] = [await open(), await open()]
  await t.rejects(open(), { message: /429/ })
  one.socket.close()
  await one.closed
  const again = await eventually(() => open())
  await t.rejects(open(), { message: /429/ })
  again.socket.close()
})

t.test('an update that is not one JSON object ends its view: it could speak for another', async (t) => {
  const { open, follow } = await start(t)
  const client = await open()
  const agent = await follow0(client.view(0), follow)
  const odd = [
    '',
    '1',
    'null',
    '[]',
    '{}{}',
    '{',
    '{"a":}',
    '{"seq":1}},{"type":"error","id":0',
    '{"a":1}\n}',
    '{\u0000}',
  ]
  for (const [i, update] of odd.entries()) {
    const id = i + 1
    client.view(id)
    const opened = await agent.step()
    agent.say({ view: Number(opened.split(' ')[0]), seq: 1, update })
    t.match(await client.next(), { type: 'error', id, code: 'INVALID_MESSAGE' }, update)
    t.match(await agent.step(), /close$/)
  }
  agent.say({ view: 1, seq: 1, update: '{"seq":1}' })
  t.equal(await client.nextSeq(), '0: 1', 'the others go on')
})

/** Returns the agent after it has received the client's first view. */
async function follow0<T extends { step(): Promise<string> }>(_: unknown, follow: () => Promise<T>): Promise<T> {
  const agent = await follow()
  await agent.step()
  return agent
}

/** Opens a WebSocket that reads nothing. */
async function openUnread(t: Test, port: number) {
  const socket = connect({ port, host: '127.0.0.1' })
  t.teardown(() => socket.destroy())
  const head = [
    'GET /k8s-proxy/views HTTP/1.1',
    'Host: kas',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
    `Sec-WebSocket-Protocol: ${viewsProtocol}`,
    `Authorization: ${asUser.Authorization}`,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await new Promise((resolve) => socket.once('readable', resolve))
  socket.pause()
  socket.removeAllListeners('readable')
  return {
    send(...messages: object[]) {
      const frames = messages.map((message) => {
        const text = Buffer.from(JSON.stringify(message))
        return Buffer.concat([Buffer.of(0x81, 0x80 | text.length, 0, 0, 0, 0), text])
      })
      socket.write(Buffer.concat(frames))
    },
  }
}

/** Resolves when the value no longer changes. */
async function settled(value: () => number): Promise<void> {
  let [seen, same] = [0, 0]
  await eventually(() => {
    same = seen === value() && value() > 0 ? same + 1 : 0
    seen = value()
    return same >= 20 || Promise.reject(new Error('it still changes'))
  })
}

const openTree = (id: number) => ({ type: 'open', id, agent: '42', view: 'tree' })
const unreadUpdate = `{"seq":1,"x":"${'x'.repeat(190_000)}"}`

t.test('a socket that never reads: nothing is taken, and it is cut after 20 s', async (t) => {
  const { port, follow, clock, views } = await start(t)
  const client = await openUnread(t, port)
  client.send(openTree(1))
  const agent = await follow()
  await agent.step()
  let taken = 0
  const next = async () => {
    agent.say({ view: 1, seq: 1, update: unreadUpdate })
    if ((await agent.step()) !== '1 taken 1') return
    taken++
    await next()
  }
  const ended = next()
  await settled(() => taken)
  t.equal(views.views, 1)
  clock.advance(19_999)
  t.equal(views.views, 1)
  clock.advance(1)
  await ended
  await eventually(() => views.views === 0 || Promise.reject(new Error('it is still open')))
  t.pass(`${taken} were taken by the system`)
})

t.test(
  'what clients have not taken is part of their share of the memory: without room the one who has most ends',
  async (t) => {
    const memory = new ReplicaMemory({ unreadBytes: 2 ** 20, callersBytes: 2 ** 20 })
    const bytes = () => memory.enter('callers', 42n as AgentId, 'nobody').total.bytes
    const { port, follow, views } = await startViews(t, {}, {}, memory)
    const client = await openUnread(t, port)
    client.send(...Array.from({ length: 20 }, (_, i) => openTree(i + 1)))
    const agent = await follow()
    let most = 0
    const serve = async () => {
      for (let step = await agent.step(); step !== 'end'; step = await agent.step()) {
        most = Math.max(most, bytes())
        if (/open|taken/.test(step)) agent.say({ view: Number(step.split(' ')[0]), seq: 1, update: unreadUpdate })
      }
    }
    const served = serve()
    await eventually(() => views.views === 0 || Promise.reject(new Error(`${views.views} are open`)))
    t.ok(most > 2 ** 19, `${most} bytes`)
    await eventually(() => bytes() === 0)
    await views.stop()
    await served
  },
)

t.test('a socket that never reads, and opens views without end, is not read from', async (t) => {
  const { port, follow, clock, views } = await start(t)
  const client = await openUnread(t, port)
  client.send(openTree(1))
  const agent = await follow()
  let [opened, taken] = [0, 0]
  const serve = async () => {
    for (let step = await agent.step(); step !== 'end'; step = await agent.step()) {
      const view = Number(step.split(' ')[0])
      if (step.includes('open')) opened++
      else if (step.includes('taken')) taken++
      else continue
      agent.say({ view, seq: 1, update: view === 1 ? unreadUpdate : '{}' })
    }
  }
  const served = serve()
  await settled(() => taken)
  const rounds = 100
  for (let round = 0; round < rounds; round++) {
    const ids = Array.from({ length: 10 }, (_, i) => 2 + round * 10 + i)
    const before = opened
    client.send(...ids.map(openTree))
    for (let turn = 0; turn < 50 && opened < before + 10; turn++) await new Promise((resolve) => setImmediate(resolve))
    client.send(...ids.map((id) => ({ type: 'close', id })))
  }
  await settled(() => opened)
  t.ok(opened <= 100, `${opened} of ${rounds * 10} were opened`)
  clock.advance(20_000)
  await eventually(() => views.views === 0 || Promise.reject(new Error('it is still open')))
  await views.stop()
  await served
})

/** Passes a minute for a client that answers pings: it sends a message before each next ping is due. */
async function minute(clock: ManualClock, client: ViewsClient): Promise<void> {
  for (let i = 0; i < 4; i++) {
    clock.advance(15_000)
    client.send({ type: 'close', id: 999, ask: 'an answer' })
    for (let said = await client.next(); said.id !== 999; said = await client.next());
  }
}

t.test('the Directory is asked again and again: who may no longer is told and closed', async (t) => {
  const { open, follow, clock, world } = await start(t)
  const client = (await open()).view(1).view(2)
  const agent = await follow()
  for (const view of [1, 2]) {
    await agent.step()
    agent.say({ view, seq: 1, update: '{"seq":1}' })
    await client.next()
  }
  for (let i = 0; i < 2; i++) t.match(await agent.step(), /taken 1/)
  let asked = 0
  const granted = world.grant
  world.grant = (...query) => {
    asked++
    t.equal(query[3]?.maxAgeMs, 5000, 'of an answer that is younger than the period leaves of a minute')
    return granted(...query)
  }
  for (let i = 1; i <= 3; i++) {
    const before = asked
    await minute(clock, client)
    t.ok(asked > before)
  }
  world.grant = () => Promise.reject(new KasError({ code: 'DIRECTORY_UNAVAILABLE' }))
  await minute(clock, client)
  let refused = 0
  world.grant = () => {
    refused++
    return Promise.reject(new KasError({ code: 'USER_UNAUTHORIZED' }))
  }
  await eventually(() => {
    clock.advance(10_000)
    return refused > 0
  })
  const said = [await client.next(), await client.next()]
  t.strictSame(
    said.map(({ id, code }) => `${id} ${code}`),
    ['1 USER_UNAUTHORIZED', '2 USER_UNAUTHORIZED'],
  )
  t.match(await client.closed, { code: 1008 })
  t.strictSame([await agent.step(), await agent.step()], ['1 close', '2 close'])
})

t.test('who is somebody else in the cluster from now on sees all anew', async (t) => {
  const { open, follow, clock, world } = await start(t)
  const client = (await open()).view(1)
  const agent = await follow()
  t.match(await agent.step(), /^1 open gitlab:user:ada/)
  agent.say({ view: 1, seq: 1, update: '{"seq":1}' })
  t.equal(await client.nextSeq(), '1: 1')
  await agent.step()
  client.send({ type: 'page', id: 1, node: 'n', limit: 5 })
  await agent.step()
  const grant: UserGrant = { accessAs: { as: 'agent' }, configProjectId: 1n, user: { id: 5n, username: 'ada' } }
  world.grant = async () => grant
  await minute(clock, client)
  t.strictSame(
    [await agent.step(), await agent.step(), await agent.step()],
    ['1 close', '2 open agent {"view":"tree"}', '2 page n 5'],
  )
  agent.say({ view: 2, seq: 1, update: '{"seq":1,"rows":[]}' })
  t.equal(await client.nextSeq(), '1: 1')
  client.view(2)
  t.match(await agent.step(), /^2 taken 1|^3 open agent/)
  t.match(await agent.step(), /^2 taken 1|^3 open agent/, 'and so are views that are opened later')
})

t.test('a stock agent is refused at once', async (t) => {
  const { open, world, ask } = await start(t)
  world.serves = false
  const client = (await open()).view(1)
  t.match(await client.next(), { id: 1, code: 'VIEWS_NOT_SERVED' })
  const response = await ask('/views')
  t.equal(response.status, 404)
  t.match(await response.json(), { message: /does not serve views/ })
})

t.test('one answer: the first update', async (t) => {
  const { ask, follow, views } = await start(t)
  const answer = ask('/views?view=list&namespace=a&namespace=b&kind=Pod&verdict=Degraded&text=x&limit=5&agent=42')
  const agent = await follow()
  const [, , , query = ''] = /^(\d) (open) (\S+) (.*)$/.exec(await agent.step())?.slice(1) ?? []
  t.strictSame(JSON.parse(query), {
    view: 'list',
    scope: { namespaces: ['a', 'b'] },
    filter: { text: 'x', kinds: ['Pod'], verdicts: ['Degraded'] },
    limit: 5,
  })
  agent.say({ view: 1, seq: 1, update: '{"seq":1,"rows":[]}' })
  const response = await answer
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'application/json')
  t.equal(await response.text(), '{"seq":1,"rows":[]}')
  t.equal(views.views, 0)
})

t.test('one answer that cannot be given', async (t) => {
  const { ask, follow, views } = await start(t)
  const agentFor = async (query: string) => {
    const answer = ask(query)
    const agent = await follow()
    for (let step = await agent.step(); ; step = await agent.step()) {
      const [view, what] = step.split(' ')
      if (what === 'open') return { answer, agent, view: Number(view) }
    }
  }
  for (const query of ['?other=1', '?agent=43', '?view=a&view=b', '?limit=x']) {
    t.equal((await ask(`/views${query}`)).status, 400, query)
  }
  const refused = await agentFor('/views?view=odd')
  refused.agent.say({ view: refused.view, fault: { code: 'BAD_REQUEST', text: 'view: no' } })
  t.equal((await refused.answer).status, 400)
  const full = await agentFor('/views')
  const text = 'Too many views, allowed: 500. You hold 499 of them: end some, or try again later'
  full.agent.say({ view: full.view, fault: { code: 'TOO_MANY_STREAMS', text } })
  const told = await full.answer
  t.equal(told.status, 429, 'the agent has no room')
  t.match(await told.json(), { message: new RegExp(text) })
  const odd = await agentFor('/views')
  odd.agent.say({ view: odd.view, seq: 1, update: '{"a":1}{"b":2}' })
  t.equal((await odd.answer).status, 400)
  await eventually(() => views.views === 0 || Promise.reject(new Error('open')))
})

t.test('what is away: a view that is open is stale, and whole again later', async (t) => {
  const { open, follow, follows, clock } = await start(t)
  const client = (await open()).view(1)
  const agent = await follow()
  await agent.step()
  agent.say({ view: 1, seq: 1, update: '{"seq":1}' })
  t.equal(await client.nextSeq(), '1: 1')
  await agent.step()
  follows.failure = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 20_000 })
  agent.end(new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' }))
  await new Promise(setImmediate)
  clock.advance(1000)
  t.match(await client.next(), { id: 1, update: { seq: 2, state: { is: 'stale', why: /was lost/ } } })
  follows.failure = undefined
  await eventually(() => {
    clock.advance(5000)
    return follows.all.length === 2 || Promise.reject(new Error('not opened again'))
  })
  const again = await follow(1)
  await again.step()
  again.say({ view: 1, seq: 1, update: '{"seq":1,"rows":[]}' })
  t.strictSame((await client.next()).update, { seq: 1, rows: [] })
})
