import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import type { Directory, UserGrant } from '../../../src/kas/directory/directory.ts'
import { noUsage } from '../../../src/kas/directory/usage.ts'
import type { KubernetesServerOptions } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { clusterForward, data, head } from './fake-cluster.ts'
import { FakeWatches } from './fake-watches.ts'
import { createKubernetesServer, directory, directoryWithBob } from './start-server.ts'
import { WatchClient } from './watch-client.ts'

/** Several watches over one WebSocket (doc/reference/tunnel-protocol.md 6.8, doc/reference/gitlab-contract.md 3.6). */

const accessCheckMs = 10_000
const headers = { Authorization: 'Bearer pat:42:as-user', 'User-Agent': 'a page' }

async function start(t: Test, options: Partial<KubernetesServerOptions> = {}, cluster = new FakeWatches()) {
  const clock = new ManualClock()
  const world = { grant: directory.grantUser, counted: [] as string[] }
  const asked: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: directory.grantJob,
    grantUser: (...query) => world.grant(...query),
  }
  const usage = {
    ...noUsage,
    counter: (name: string) => () => void world.counted.push(name),
  }
  const { server, log } = createKubernetesServer(cluster.forward, { accessCheckMs, ...options }, undefined, {
    clock,
    usage,
    directory: asked,
    webSocketTokens: new WebSocketTokens({ secret: Buffer.alloc(64), clock }),
  })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const open = (more: { autoPong?: boolean; headers?: Record<string, string> } = {}) =>
    WatchClient.open(t, port, { headers, ...more })
  return { server, clock, world, watches: cluster, open, port, log }
}

// wire: watch.watch, watch.event
t.test('each watch is a request of its own; its events come under its id', async (t) => {
  const { watches, open, world } = await start(t)
  const client = await open()
  const selectors = { field_selector: 'metadata.name=x', label_selector: 'a=b', allow_watch_bookmarks: true }
  client.watch('a', { ...selectors, namespace: 'flux-system', group: 'apps', resource: 'deployments' })
  client.watch('b', { group: '', namespace: null, resource_version: '5' })
  const [one, other] = [await watches.nth(0), await watches.nth(1)]
  t.match(one.header, {
    method: 'GET',
    urlPath: '/apis/apps/v1/namespaces/flux-system/deployments',
    query: [
      ['allowWatchBookmarks', ['true']],
      ['fieldSelector', ['metadata.name=x']],
      ['labelSelector', ['a=b']],
      ['watch', ['true']],
    ],
    header: [
      ['User-Agent', ['a page']],
      ['Accept', ['application/json']],
      ['Via', ['gRPC/1.0 gitlab-kas/v1.2.3/abc']],
      ['Audit-Id', [/^[0-9a-f-]{36}$/]],
    ],
    contentLength: 0,
    impersonation: { username: 'gitlab:user:ada' },
  })
  t.match(other.header, {
    urlPath: '/api/v1/pods',
    query: [
      ['allowWatchBookmarks', ['true']],
      ['resourceVersion', ['5']],
      ['watch', ['true']],
    ],
  })
  t.equal(one.call.safety, 'safe')
  one.event('x')
  t.same(await client.next(), {
    type: 'watch',
    watchId: 'a',
    watchEvent: { type: 'ADDED', object: { metadata: { name: 'x' } } },
  })
  other.event('p1').event('p2', 'DELETED')
  t.match(await client.next(), { watchId: 'b', watchEvent: { object: { metadata: { name: 'p1' } } } })
  t.match(await client.next(), { watchId: 'b', watchEvent: { type: 'DELETED' } })
  t.equal(world.counted.filter((name) => name === 'k8s_api_proxy_request').length, 2)
})

t.test('events that come in pieces, many at once, and with any character', async (t) => {
  const { watches, open } = await start(t)
  const client = (await open()).watch('a')
  const watch = await watches.nth(0)
  const text = `${JSON.stringify({ type: 'ADDED', object: { metadata: { name: 'ü"\\ \u2028 🐈' } } })}\n`
  const bytes = Buffer.from(text)
  for (const byte of bytes) watch.say(Buffer.of(byte))
  t.equal(await client.nextName(), 'a: ü"\\ \u2028 🐈')
  watch.say(['1', '2', '3'].map((name) => JSON.stringify({ type: 'ADDED', object: { metadata: { name } } })).join('\n'))
  t.same([await client.nextName(), await client.nextName()], ['a: 1', 'a: 2'])
  watch.say('\n')
  t.equal(await client.nextName(), 'a: 3')
})

// wire: watch.unwatch
t.test('unwatch ends one; an id that is used again begins anew', async (t) => {
  const { watches, open } = await start(t)
  const client = (await open()).watch('a').watch('b')
  const [one, other] = [await watches.nth(0), await watches.nth(1)]
  client.send({ type: 'unwatch', watch_id: 'a' }).send({ type: 'unwatch', watch_id: 'unknown' })
  await one.cancelled
  other.event('still')
  t.equal(await client.nextName(), 'b: still', 'and nothing was said of a')
  client.watch('b', { resource: 'services' })
  await other.cancelled
  const again = await watches.nth(2)
  again.event('new')
  t.equal(await client.nextName(), 'b: new')
  client.socket.close()
  await again.cancelled
  t.pass('a client that leaves ends all')
})

// wire: watch.error, error.reason
t.test('how a watch fails; the others go on', async (t) => {
  const status = { kind: 'Status', apiVersion: 'v1', message: 'too old resource version', code: 410 }
  const text = 'GitLab Agent Server: '
  const { watches, open } = await start(t)
  const client = (await open()).watch('good')
  const good = await watches.nth(0)
  let begun = 1
  const failing = async (end: (watch: Awaited<ReturnType<FakeWatches['nth']>>) => void) => {
    client.watch('bad')
    end(await watches.nth(begun++))
    const { type, watchId, error } = await client.next()
    t.same([type, watchId, error?.message], ['error', 'bad', error?.object.message])
    return error?.object
  }
  t.same(await failing((watch) => watch.say(`${JSON.stringify({ type: 'ERROR', object: status })}\n`)), status)
  t.match(await failing((watch) => watch.end()), {
    code: 410,
    reason: 'Gone',
    message: `${text}The cluster has ended the watch`,
  })
  t.match(await failing((watch) => watch.end(new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 1 }))), {
    code: 502,
    message: `${text}HTTP->gRPC: failed to read gRPC response: rpc error: code = DeadlineExceeded desc = Agent connection not found. Is agent up to date and connected?`,
  })
  for (const odd of ['<html>\n', '"a"\n', '{}\n', 'null\n', '{"type":"ADDED"},"watchId":"good"\n']) {
    t.match(await failing((watch) => watch.say(odd)), { code: 502, message: /an event of the watch is not one/ }, odd)
  }
  good.event('fine')
  t.equal(await client.nextName(), 'good: fine')
})

t.test('a cluster that refuses a watch', async (t) => {
  const { watches, open } = await start(t, {}, new FakeWatches(403))
  const client = (await open()).watch('a').watch('b')
  const status = { kind: 'Status', status: 'Failure', message: 'pods is forbidden', reason: 'Forbidden', code: 403 }
  ;(await watches.nth(0)).say(JSON.stringify(status, undefined, 2)).end()
  t.same(await client.next(), { type: 'error', watchId: 'a', error: { message: status.message, object: status } })
  ;(await watches.nth(1)).say('<html>').end()
  t.match(await client.next(), {
    watchId: 'b',
    error: { message: /The cluster answered the watch with HTTP status 403/ },
  })
})

// wire: error.reason
t.test('parameters that cannot be used fail their watch before anything is sent', async (t) => {
  const { watches, open } = await start(t)
  const client = await open()
  for (const params of [
    { resource: undefined },
    { version: '' },
    { resource: '../secrets' },
    { resource: 'pods/exec' },
    { namespace: 'a/b' },
    { group: 'A' },
    { version: 1 },
    { field_selector: { a: 1 } },
    { watch: 'false' },
    { 'a b': 'c' },
    Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`p${i}`, '1'])),
  ]) {
    client.watch('a', params)
    const { error } = await client.next()
    t.match(error?.object, { kind: 'Status', reason: 'BadRequest', code: 400 }, JSON.stringify(params))
  }
  t.equal(watches.all.length, 0)
})

t.test('messages that are none close the WebSocket', async (t) => {
  const { open } = await start(t, { limits: { maxWatchMessageBytes: 1000 } })
  for (const [code, message] of [
    [1003, Buffer.from('{}')],
    [1008, '{'],
    [1008, '[]'],
    [1008, '{"type":"watch"}'],
    [1008, '{"type":"watch","watch_id":5}'],
    [1008, '{"type":"list","watch_id":"a"}'],
    [1008, '{"type":"watch","watch_id":"a","watch_params":[]}'],
    [1009, JSON.stringify({ type: 'watch', watch_id: 'a', more: 'x'.repeat(1000) })],
  ] as const) {
    const client = await open()
    client.socket.send(message)
    const closed = await client.closed
    t.equal(closed.code, code, String(message).slice(0, 60))
    if (code === 1008) t.not(closed.reason, '', 'it says why')
  }
})

t.test('bounds: watches, and events that have not come whole', async (t) => {
  const { watches, open } = await start(t, { limits: { maxWatches: 2, maxWatchPartialBytes: 1000 } })
  const client = (await open()).watch('a').watch('b')
  const [one, other] = [await watches.nth(0), await watches.nth(1)]
  client.watch('c')
  t.match(await client.next(), { watchId: 'c', error: { object: { code: 429, message: /More than 2 watches/ } } })
  one.say('x'.repeat(600))
  other.say('y'.repeat(600))
  t.match(
    await client.next(),
    { error: { message: /larger than max \(1456 vs\. 1000\)/ } },
    'of both together, with what each piece costs',
  )
  await Promise.race([one.cancelled, other.cancelled])
  client.watch('d')
  ;(await watches.nth(2)).event('d')
  t.equal(await client.nextName(), 'd: d', 'a place is free again')
})

t.test('what is kept is bounded over all WebSockets of an agent, and other agents have their own', async (t) => {
  const { watches, open } = await start(t, { limits: { maxWatchAgentBytes: 2000 } })
  const clients = [(await open()).watch('a'), (await open()).watch('b'), (await open()).watch('c')] as const
  const cluster = await Promise.all([0, 1, 2].map((n) => watches.nth(n)))
  const other = (await open({ headers: { Authorization: 'Bearer pat:43:as-user' } })).watch('other')
  for (const watch of cluster) watch.say('x'.repeat(700))
  const refused = await Promise.race(clients.map((client) => client.next()))
  t.match(refused, {
    error: {
      object: { message: /Too many bytes of events of this agent that are not whole, allowed: 2000. You hold 1656/ },
    },
  })
  ;(await watches.nth(3)).say('{"type":"ADDED",').say(`"object":{"metadata":{"name":"${'y'.repeat(1200)}"}}}\n`)
  t.equal(await other.nextName(), `other: ${'y'.repeat(1200)}`)
  for (const { socket } of clients) {
    socket.close()
    await once(socket, 'close')
  }
  await Promise.all(cluster.map((watch) => watch.cancelled))
  const next = (await open()).watch('d')
  ;(await watches.nth(4)).say('{"type":"ADDED",').say(`"object":{"metadata":{"name":"${'z'.repeat(1200)}"}}}\n`)
  t.equal(await next.nextName(), `d: ${'z'.repeat(1200)}`, 'who has closed holds nothing')
})

t.test(
  'callers share what is kept: the WebSocket of who has most is closed for another, with the reason',
  async (t) => {
    const { watches, open, world } = await start(t, { limits: { maxWatchAgentBytes: 2000 } })
    world.grant = directoryWithBob.grantUser
    const [one, two] = [(await open()).watch('a'), (await open()).watch('b')]
    const [first, second] = [await watches.nth(0), await watches.nth(1)]
    const bob = (await open({ headers: { Authorization: 'Bearer pat:42:bob' } })).watch('c')
    first.say('x'.repeat(500))
    second.say('x'.repeat(1000))
    ;(await watches.nth(2)).say('{"type":"ADDED",').say(`"object":{"metadata":{"name":"${'y'.repeat(400)}"}}}\n`)
    t.match(await two.next(), {
      watchId: 'b',
      error: { object: { code: 429, message: /You hold \d+ of them: end some/ } },
    })
    t.match(await once(two.socket, 'close'), [1013])
    t.equal(await bob.nextName(), `c: ${'y'.repeat(400)}`)
    t.equal(one.socket.readyState, one.socket.OPEN)
  },
)

t.test('an event of millions of levels is refused at once', async (t) => {
  const { watches, open } = await start(t)
  const client = (await open()).watch('evil').watch('good')
  const [evil, good] = [await watches.nth(0), await watches.nth(1)]
  evil.say(`{"type":"ADDED","object":${'['.repeat(3 << 20)}`).say(`${']'.repeat(3 << 20)}}\n`)
  t.match(await client.next(), { watchId: 'evil', error: { object: { message: /an event of the watch is not one/ } } })
  good.event('x')
  t.equal(await client.nextName(), 'good: x')
})

// wire: access.again
t.test('who may no longer gets the reason, and the WebSocket is closed', async (t) => {
  const { watches, open, clock, world } = await start(t)
  const client = (await open()).watch('a').watch('b')
  const all = [await watches.nth(0), await watches.nth(1)]
  clock.advance(accessCheckMs)
  all[0]?.event('still allowed')
  t.equal(await client.nextName(), 'a: still allowed')
  world.grant = () => Promise.reject(new KasError({ code: 'USER_UNAUTHORIZED' }))
  client.watch('c')
  const refused = { code: 401, message: 'GitLab Agent Server: Unauthorized' }
  t.match(await client.next(), { watchId: 'c', error: { object: refused } }, 'a new one at once')
  await eventually(() => {
    clock.advance(accessCheckMs) // the previous check may not have its answer yet
    if (all.some(({ call }) => !call.signal.aborted)) throw new Error('not found out yet')
  })
  for (const watchId of ['a', 'b']) t.match(await client.next(), { type: 'error', watchId, error: { object: refused } })
  t.same(await client.closed, { code: 1008, reason: 'Unauthorized' })
})

t.test('other roles end it; a directory that is away does not', async (t) => {
  const { watches, open, clock, world } = await start(t)
  const client = (await open()).watch('a')
  const watch = await watches.nth(0)
  let asked = 0
  world.grant = () => {
    asked++
    return Promise.reject(new KasError({ code: 'USER_FAILED' }))
  }
  const tick = async (expected: number) =>
    eventually(() => {
      clock.advance(accessCheckMs)
      if (asked < expected) throw new Error('not asked yet')
    })
  await tick(1)
  watch.event('x')
  t.equal(await client.nextName(), 'a: x')
  const roles: UserGrant = {
    accessAs: { as: 'user', projects: [{ id: 1n, roles: ['guest'] }], groups: [] },
    configProjectId: 1n,
    user: { id: 5n, username: 'ada' },
  }
  world.grant = async () => {
    asked++
    return roles
  }
  await tick(2)
  t.match(await client.next(), { error: { message: /the roles of the caller have changed/ } })
  t.match(await client.closed, { code: 1008, reason: /the roles of the caller have changed/ })
})

t.test('a client that takes nothing holds the cluster up, and is cut at the write dead-line', async (t) => {
  let sent = 0
  const endless = clusterForward(async function* () {
    yield head(200)
    const event = `${JSON.stringify({ type: 'ADDED', object: { metadata: { name: 'x'.repeat(60_000) } } })}\n`
    for (; ; sent++) yield data(event)
  })
  const { open, clock } = await start(t, {}, { forward: endless } as FakeWatches)
  const client = (await open()).watch('a')
  await client.next()
  const timers = 2 // timers of the ping and of the access check; the write deadline adds a third one
  client.socket.pause()
  let last = -1
  let same = 0
  await eventually(() => {
    same = sent === last && clock.pending > timers ? same + 1 : 0
    last = sent
    if (same < 10) throw new Error('still moving')
  })
  t.ok(sent < 300, `${sent} events of 60 kB wait in kas and in the sockets`)
  clock.advance(19_000)
  t.equal(client.socket.readyState, client.socket.OPEN)
  clock.advance(1000)
  client.socket.resume()
  t.equal((await client.closed).code, 1006, 'cut')
})

t.test('a client that asks and does not read is held up; nothing is lost', async (t) => {
  const { open, log } = await start(t)
  const client = await open()
  client.socket.ping()
  await once(client.socket, 'pong')
  client.socket.pause()
  const count = 20_000
  for (let i = 0; i < count; i++) client.watch(String(i).padStart(256, 'x'), { resource: '../' })
  const heard = () => log.filter((line) => line.includes('A watch failed')).length
  let last = -1
  let same = 0
  await eventually(() => {
    same = heard() > 0 && heard() === last ? same + 1 : 0
    last = heard()
    if (same < 10) throw new Error(`still moving: ${last}`)
  })
  t.ok(last < count, `${last} of ${count} were heard`)
  let answered = 0
  const all = new Promise<void>((resolve) => {
    client.socket.on('message', () => {
      answered++
      if (answered === count) resolve()
    })
  })
  client.socket.resume()
  await all
  t.equal(answered, count)
})

t.test('a client is pinged, and cut when it gives no sign of life until the next one', async (t) => {
  const { open, clock, watches } = await start(t, { accessCheckMs: 10_000_000 })
  const [alive, dead] = [await open(), await open({ autoPong: false })]
  for (let i = 0; i < 3; i++) {
    const pinged = (i === 0 ? [alive, dead] : [alive]).map(({ socket }) => once(socket, 'ping'))
    clock.advance(30_000)
    await Promise.all(pinged)
    if (i === 1) t.equal((await dead.closed).code, 1006)
    alive.watch('a') // by now the server has read the answer to the ping
    await watches.nth(i)
  }
  t.equal(alive.socket.readyState, alive.socket.OPEN)
})

t.test('a stop closes it at the end of the grace, with its code', async (t) => {
  const { server, open, watches } = await start(t)
  const client = (await open()).watch('a')
  const watch = await watches.nth(0)
  const stopped = server.stop(new AbortController().signal)
  t.match(await client.closed, { code: 1001, reason: 'kas is shutting down' })
  await watch.cancelled
  await stopped
})
