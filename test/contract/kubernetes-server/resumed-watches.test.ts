import t, { type Test } from 'tap'
import type { Directory, UserGrant } from '../../../src/kas/directory/directory.ts'
import type { KubernetesLimits } from '../../../src/kas/servers/kubernetes/http/kubernetes-limits.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { FakeWatches } from './fake-watches.ts'
import { RawClient } from './raw-client.ts'
import { directory, directoryWithBob, startServer } from './start-server.ts'
import { WatchClient } from './watch-client.ts'

/** Watches after the loss of their replica, as clients see them (doc/guide/kubernetes-proxy.md "Watches go on"). */

const asUser = 'Authorization: Bearer pat:42:as-user'
const lost = () => new KasError({ code: 'TUNNEL_LOST', delivery: 'maybe' })

async function start(t: Test, limits: Partial<KubernetesLimits> = {}) {
  const watches = new FakeWatches()
  const world = { grant: directory.grantUser }
  const asked: Pick<Directory, 'grantJob' | 'grantUser'> = {
    grantJob: directory.grantJob,
    grantUser: (...query) => world.grant(...query),
  }
  const webSocketTokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock: systemClock })
  const { server, port, count } = await startServer(watches.forward, { limits }, undefined, {
    directory: asked,
    webSocketTokens,
  })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const open = async (target: string, credential = asUser) => {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    return client.request(`GET /k8s-proxy${target}`, credential)
  }
  const openWebSocket = () => WatchClient.open(t, port, { headers: { Authorization: 'Bearer pat:42:as-user' } })
  return { watches, world, open, openWebSocket, count }
}

/** Returns the names of the events' objects, in order; the code of an ERROR event. */
function namesIn(text: string): (string | number)[] {
  return text
    .split(/[\r\n]+/)
    .filter((line) => line.startsWith('{'))
    .map((line) => {
      const { type, object } = JSON.parse(line)
      return type === 'ERROR' ? object.code : object.metadata.name
    })
}

const inOrder = /\r\n0\r\n\r\n$/

t.test('a holder that dies between two bytes of an event: its client has each whole, once', async (t) => {
  const { watches, open, count } = await start(t)
  const client = await open('/api/v1/pods?watch=1&resourceVersion=1')
  const first = await watches.nth(0)
  first.event('a', 'ADDED', '2').say('{"type":"MODIFIED","object":{"metadata":{"na').end(lost())
  const second = await watches.nth(1)
  t.same(second.header.query, [
    ['allowWatchBookmarks', ['true']],
    ['resourceVersion', ['2']],
    ['watch', ['1']],
  ])
  t.same(second.header.impersonation, first.header.impersonation)
  t.same(second.header.header, first.header.header)
  second.event('b', 'MODIFIED', '3').end()
  t.same(namesIn(await client.until(inOrder)), ['a', 'b'])
  t.equal(await count('answered'), 1)
})

t.test('over WebSocket, one watch beside another', async (t) => {
  const { watches, openWebSocket } = await start(t)
  const client = (await openWebSocket()).watch('a', { resource_version: '1' }).watch('b', { resource_version: '1' })
  const [one, other] = [await watches.nth(0), await watches.nth(1)]
  one.event('x', 'ADDED', '2')
  t.equal(await client.nextName(), 'a: x')
  one.say('{"type":').end(lost())
  const again = await watches.nth(2)
  t.match(again.header.query, [['allowWatchBookmarks'], ['resourceVersion', ['2']], ['watch']])
  other.event('y', 'ADDED', '3')
  t.equal(await client.nextName(), 'b: y')
  again.event('z', 'ADDED', '3')
  t.equal(await client.nextName(), 'a: z')
})

const otherRoles: UserGrant = {
  accessAs: { as: 'user', projects: [{ id: 1n, roles: ['guest'] }], groups: [] },
  configProjectId: 1n,
  user: { id: 5n, username: 'ada' },
}
const changes = {
  'whose right was withdrawn': {
    grant: () => Promise.reject(new KasError({ code: 'USER_UNAUTHORIZED' })),
    code: 401,
    message: /Unauthorized/,
  },
  'whose impersonation is another one': {
    grant: async () => otherRoles,
    code: 403,
    message: /the roles of the caller have changed/,
  },
} satisfies Record<string, { grant: Directory['grantUser']; code: number; message: RegExp }>

for (const [who, { grant, code, message }] of Object.entries(changes)) {
  t.test(`a user ${who} while the holder was away is told so, and watches no more`, async (t) => {
    const { watches, world, open, openWebSocket } = await start(t)
    const client = await open('/api/v1/pods?watch=1&resourceVersion=1')
    const one = await watches.nth(0)
    const page = (await openWebSocket()).watch('a', { resource_version: '1' })
    const other = await watches.nth(1)
    one.event('x', 'ADDED', '2')
    other.event('x', 'ADDED', '2')
    await client.until(/"x"/)
    t.equal(await page.nextName(), 'a: x')
    world.grant = grant
    one.say('{"type":"ADDED",').end(lost())
    other.say('{"type":"ADDED",').end(lost())
    const text = await client.until(inOrder)
    t.same(namesIn(text), ['x', code])
    t.match(text, message)
    t.match(await page.next(), { type: 'error', watchId: 'a', error: { message, object: { code } } })
    t.equal(watches.all.length, 2, 'it was not opened again')
  })
}

t.test('while the directory is away watches go on', async (t) => {
  const { watches, world, open } = await start(t)
  const client = await open('/api/v1/pods?watch=1&resourceVersion=1')
  const first = await watches.nth(0)
  world.grant = () => Promise.reject(new KasError({ code: 'USER_FAILED' }))
  first.event('a', 'ADDED', '2').end(lost())
  ;(await watches.nth(1)).event('b', 'ADDED', '3').end()
  t.same(namesIn(await client.until(inOrder)), ['a', 'b'])
})

t.test(
  '…/services/x/proxy/?watch=1 is what the service makes of it: unchanged, and cut where it is lost',
  async (t) => {
    const { watches, open } = await start(t)
    const client = await open('/api/v1/namespaces/a/services/x/proxy/?watch=1&resourceVersion=1')
    const watch = await watches.nth(0)
    t.same(watch.header.query, [
      ['resourceVersion', ['1']],
      ['watch', ['1']],
    ])
    t.notOk(watch.call.isWatch)
    watch.event('mark', 'BOOKMARK', '2').say('{"half')
    await client.until(/"mark".*\{"half/s)
    watch.end(lost())
    t.notMatch(await client.toEnd(), inOrder, 'it is not whole')
    t.equal(watches.all.length, 1)
  },
)

t.test('a resourceVersion of 1 MB is too long for a head; one with & is a value', async (t) => {
  const { watches, open } = await start(t)
  const long = await open(`/api/v1/pods?watch=1&resourceVersion=${'1'.repeat(1_100_000)}`)
  t.match(await long.until(/\r\n\r\n/), /^HTTP\/1\.1 431 /)
  const client = await open('/api/v1/pods?watch=1&resourceVersion=5%26watch%3D0')
  const query = [
    ['allowWatchBookmarks', ['true']],
    ['resourceVersion', ['5&watch=0']],
    ['watch', ['1']],
  ]
  const first = await watches.nth(0)
  t.same(first.header.query, query)
  first.end(lost())
  const second = await watches.nth(1)
  t.same(second.header.query, query)
  second.event('a', 'ADDED', '6').end()
  t.same(namesIn(await client.until(inOrder)), ['a'])
})

t.test('a cluster restored from a backup: its Status is the last event', async (t) => {
  const { watches, open } = await start(t)
  watches.refuse(1, 410, { kind: 'Status', message: 'too old resource version: 2 (900)', code: 410 })
  const client = await open('/api/v1/pods?watch=1&resourceVersion=1')
  ;(await watches.nth(0)).event('a', 'ADDED', '2').end(lost())
  const text = await client.until(inOrder)
  t.same(namesIn(text), ['a', 410])
  t.match(text, /too old resource version/)
})

t.test(
  'callers share what is kept: the watch that keeps most, of who has most, ends for another, with the reason',
  async (t) => {
    const { watches, world, open } = await start(t, { maxWatchAgentBytes: 2500 })
    world.grant = directoryWithBob.grantUser
    const target = '/api/v1/pods?watch=1&resourceVersion=1'
    const clients = [await open(target)]
    const light = (await watches.nth(0)).event('a', 'ADDED', '2').say(`{"type":"${'x'.repeat(500)}`)
    clients.push(await open(target))
    const heavy = (await watches.nth(1)).event('a', 'ADDED', '2').say(`{"type":"${'x'.repeat(1000)}`)
    for (const client of clients) await client.until(/"name":"a"/)
    const bob = await open(target, 'Authorization: Bearer pat:42:bob')
    const third = (await watches.nth(2)).event('c', 'ADDED', '2')
    await bob.until(/"name":"c"/)
    third.say(`{"type":"ADDED","object":{"metadata":{"name":"d","annotations":{"a":"${'y'.repeat(700)}`)
    await heavy.cancelled
    t.match(await clients[1]?.until(/\r\n0\r\n\r\n$/), /"type":"ERROR".*You hold \d+ of them/s)
    third.say('"}}}}\n').end()
    t.same(namesIn(await bob.until(inOrder)), ['c', 'd'])
    t.notOk(light.call.signal.aborted)
    light.end(lost())
  },
)
