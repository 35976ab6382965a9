import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import type { AgentId } from '../../../src/call/call.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import { WebSocketTokens } from '../../../src/kas/servers/kubernetes/watch/websocket-tokens.ts'
import { viewsBounds } from '../../../src/proto/views-json.ts'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { FakeWatches } from './fake-watches.ts'
import { createKubernetesServer, directoryWithBob } from './start-server.ts'
import { ViewsClient } from './views-client.ts'
import { startViews } from './views-ground.ts'
import { WatchClient } from './watch-client.ts'

/**
 * Queries over kas' own WebSockets count towards the share of their callers (doc/operate/operations.md "How a replica divides
 * its memory").
 */

const MiB = 1024 * 1024
const headersOf = (key: string) => ({ Authorization: `Bearer pat:42:${key}` })
const [ada, bob] = [headersOf('as-user'), headersOf('bob')]
const full = /This replica of kas has \d+ MiB for connections and calls/
const views = viewsBounds.maxViewsPerSocket
const longQuery = { filter: { text: 'x'.repeat(60_000) } }

function share(callersBytes: number) {
  const memory = new ReplicaMemory({ unreadBytes: MiB, callersBytes })
  return { memory, bytes: () => memory.enter('callers', 42n as AgentId, 'nobody').total.bytes }
}

async function startOfViews(t: Test, callersBytes: number) {
  const { memory, bytes } = share(callersBytes)
  const ground = await startViews(t, {}, {}, memory)
  ground.world.grant = directoryWithBob.grantUser
  const open = (headers = ada, path = 'views', protocol = 'kas-views-v1') =>
    ViewsClient.open(t, ground.port, { headers, path: `/k8s-proxy/${path}`, protocols: [protocol] })
  /** Opens a WebSocket with as many views as are allowed. */
  const fill = async () => {
    const client = await open()
    for (let id = 1; id <= views; id++) client.view(id, longQuery)
    return client
  }
  return { ...ground, bytes, open, fill }
}

t.test('queries of views count until their views close', async (t) => {
  const { fill, bytes, views: feeds } = await startOfViews(t, 64 * MiB)
  const client = await fill()
  await eventually(() => feeds.views === views)
  t.ok(bytes() > views * 60_000, `${bytes()} bytes`)
  const before = bytes()
  client.send({ type: 'close', id: 1 })
  await eventually(() => bytes() < before - 60_000)
  client.socket.close()
  await eventually(() => bytes() === 0)
})

t.test('whoever has most of them makes room, and is told', async (t) => {
  const { fill, views: feeds, open } = await startOfViews(t, 4 * MiB)
  const other = (await open(bob)).view(1)
  await eventually(() => feeds.views === 1)
  const clients = await Promise.all(Array.from({ length: 4 }, fill))
  const closed = await eventually(() => clients.find(({ socket }) => socket.readyState === WebSocket.CLOSED) ?? false)
  t.match(await closed.closed, { code: 1013, reason: full })
  t.equal(other.socket.readyState, WebSocket.OPEN, 'another one goes on')
})

t.test('ids of open nodes count until they are closed', async (t) => {
  const { open, bytes, views: feeds } = await startOfViews(t, 64 * MiB)
  const client = (await open()).view(1)
  await eventually(() => feeds.views === 1)
  const before = bytes()
  const node = (i: number) => String(i).padEnd(1000, '\u2028')
  for (let i = 0; i < 60; i++) client.send({ type: 'page', id: 1, node: node(i), limit: 1 })
  await eventually(() => bytes() >= before + 60 * 2000)
  for (let i = 0; i < 60; i++) client.send({ type: 'page', id: 1, node: node(i), limit: 2 })
  for (let i = 0; i < 60; i++) client.send({ type: 'page', id: 1, node: node(i), limit: 0 })
  await eventually(() => bytes() === before)
})

t.test('the request of a graph counts', async (t) => {
  const { open, bytes, views: feeds } = await startOfViews(t, 64 * MiB)
  const client = await open(ada, 'graph', 'gitlab-agent-graph-api')
  client.send({ queries: [], names: 'x'.repeat(60_000) })
  await eventually(() => feeds.views === 1)
  t.ok(bytes() > 60_000, `${bytes()} bytes`)
})

t.test('so do requests of watches, until these end', async (t) => {
  const { memory, bytes } = share(64 * MiB)
  const clock = new ManualClock()
  const webSocketTokens = new WebSocketTokens({ secret: Buffer.alloc(64), clock })
  const watches = new FakeWatches()
  const { server } = createKubernetesServer(watches.forward, {}, undefined, { clock, webSocketTokens, memory })
  t.teardown(() => server.stop(AbortSignal.abort()))
  await server.start()
  const { port } = server.address as AddressInfo
  const client = await WatchClient.open(t, port, { headers: ada })
  const before = bytes()
  for (let id = 0; id < 20; id++) client.watch(String(id), { label_selector: 'x'.repeat(60_000) })
  await watches.nth(19)
  t.ok(bytes() - before > 20 * 60_000, `${bytes() - before} bytes`)
  client.send({ type: 'unwatch', watch_id: '1' })
  await (await watches.nth(1)).cancelled
  await eventually(() => bytes() - before < 20 * (16 * 1024 + 3 * 60_100) - 60_000)
  client.socket.close()
  await eventually(() => bytes() === 0)
})
