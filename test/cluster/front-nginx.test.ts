import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startConnections } from '../contract/agentk/connections-side.ts'
import { absent } from '../support/absent.ts'
import { hugeBytes } from '../support/cluster-double.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import {
  agents,
  carriesAll,
  clientOf,
  cutsLostWebSockets,
  echoesAll,
  type Fronted,
  goesRound,
  grpcAddress,
  placesAgents,
  startAgents,
  turnOf,
  upgrades,
  withoutAgent,
} from './front-cases.ts'
import { kubernetesPath } from './front-client.ts'
import { startNginx } from './front-program.ts'
import { FrontedReplicas, tokenOf } from './fronted-replicas.ts'

/** nginx with the files of deploy/nginx before three replicas, with agents by WebSocket and by gRPC behind it. */

/** an agent without callers */
const uncalled = 90
const skip = absent('nginx') && 'needs nginx'

t.test('nginx as the front', { skip, timeout: 120_000 }, async (t) => {
  const replicas = await FrontedReplicas.start(t, { moreAgents: [uncalled] })
  const fronted = { replicas, front: await startNginx(replicas) }
  const { grpc } = await startAgents(fronted)
  await carriesAll(t, fronted)
  await t.test('lets agents hear what is told on one idle tunnel', (t) => hearsStandby(t, fronted))
  await t.test('places agents', (t) => placesAgents(t, fronted))
  await t.test('takes what has no body to the holder', (t) => redirects(t, fronted))
  await t.test('takes no long body of a stranger', (t) => refusesLongBodies(t, fronted))
  t.equal(fronted.front.program.stderr, '', 'nginx has nothing to complain of')
  await t.test('keeps a watch over a reload', (t) => reloads(t, fronted))
  await t.test('goes round a replica that is away', (t) => goesRound(t, fronted))
  await t.test('cuts a WebSocket that is lost', (t) => cutsLostWebSockets(t, fronted, () => grpc.signal('SIGKILL')))
})

/** Checks that an agent learns its standby by gRPC; agentk would give up after 10 s. */
async function hearsStandby(t: Test, { replicas, front }: Fronted): Promise<void> {
  const caFile = join(replicas.processes.folder, 'ca.crt')
  const connections = await startConnections(t, grpcAddress(front), { caFile, token: tokenOf(uncalled) })
  await eventually(() => assert.ok(connections.places.standby, JSON.stringify(connections.places)), { timeoutMs: 8000 })
  t.not(connections.places.standby, connections.places.home)
}

async function redirects(t: Test, fronted: Fronted): Promise<void> {
  const { replicas } = fronted
  const client = clientOf(fronted, agents[0])
  const entry = await withoutAgent(replicas, agents[0])
  const grown = async (action: () => Promise<unknown>) => {
    await turnOf(entry, client)
    const [before, bytes] = [await entry.outcomes(), entry.relay.bytes]
    await action()
    const { redirected = 0, answered = 0 } = await entry.outcomes()
    return {
      redirected: redirected - (before.redirected ?? 0),
      answered: answered - (before.answered ?? 0),
      bytes: entry.relay.bytes - bytes,
    }
  }
  const redirected = { redirected: 1, answered: 0 }
  const download = await grown(async () => {
    const { status, body } = await client.send('/huge')
    t.match({ status, length: body.length }, { status: 200, length: hugeBytes })
  })
  t.match(download, redirected, 'a download is redirected')
  t.ok(download.bytes < hugeBytes / 20, `who does not hold the agent carried ${download.bytes} of ${hugeBytes} bytes`)
  const leave = new AbortController()
  const watch = async () => {
    const lines = await client.lines('/events', { signal: leave.signal })
    replicas.cluster.emitEvent('event\n')
    t.equal((await lines.next()).value, 'event')
  }
  t.match(await grown(watch), redirected, 'a watch is redirected')
  leave.abort()
  for (const { protocol, method } of upgrades) {
    const exec = async () => t.ok(await echoesAll(await client.upgrade('/exec', protocol, method)))
    t.match(await grown(exec), redirected, `exec by ${protocol} is redirected`)
  }
  for (const method of ['POST', 'PATCH']) {
    const change = () => client.echo('/api/v1/pods', { method, body: Buffer.from('{}') })
    t.match(await grown(change), { redirected: 0, answered: 1 }, `${method} with a body is carried`)
  }
}

/**
 * Checks that a long body is refused early: otherwise nginx writes it to disk before kas has authenticated the caller.
 */
async function refusesLongBodies(t: Test, fronted: Fronted): Promise<void> {
  const { replicas, front } = fronted
  for (const method of ['PUT', 'DELETE']) {
    const headers = { 'content-length': '1000000000' }
    const asked = request(`${front.url}${kubernetesPath}/api`, { method, headers, ca: replicas.ca, agent: false })
    t.teardown(() => asked.destroy())
    asked.on('error', () => undefined) // it is closed after the answer
    asked.write(Buffer.alloc(100_000))
    const [answer] = await once(asked, 'response')
    t.equal(answer.statusCode, 401, `${method}: answered while it is on its way`)
    asked.destroy()
  }
  const client = clientOf(fronted, agents[0])
  for (const method of ['PUT', 'DELETE']) {
    const { bytes } = await client.echo('/api/v1/pods', { method, body: Buffer.alloc(3_000_000) })
    t.equal(bytes, 3_000_000, `${method} of who is known, from each replica`)
  }
}

async function reloads(t: Test, fronted: Fronted): Promise<void> {
  const { replicas } = fronted
  const leave = new AbortController()
  t.teardown(() => leave.abort())
  const client = clientOf(fronted, agents[0])
  const watch = await client.lines('/events', { signal: leave.signal })
  replicas.cluster.emitEvent('before\n')
  t.equal((await watch.next()).value, 'before')
  const missing = (text: string) => text.replaceAll('@kas-', '@other-')
  await reload(fronted, 'kas-holders.conf', (text) => `${missing(text)}\nlocation = /reloaded { return 204; }`)
  replicas.cluster.emitEvent('after\n')
  t.equal((await watch.next()).value, 'after')
  const entry = await withoutAgent(replicas, agents[0])
  const before = await entry.outcomes()
  for (const { name } of replicas.all) {
    t.match(await client.echo('/api'), { method: 'GET' }, `new requests are carried, at the turn of ${name}`)
    t.ok(await echoesAll(await client.upgrade('/exec', 'websocket', 'GET')))
  }
  const { redirected = 0 } = await entry.outcomes()
  t.ok(redirected > (before.redirected ?? 0), 'those too that are told a location that is missing')
}

/** Changes a file of nginx and resolves when the change applies; the change must add `/reloaded`. */
async function reload({ replicas, front }: Fronted, file: string, change: (text: string) => string): Promise<void> {
  const path = join(front.folder, file)
  await writeFile(path, change(await readFile(path, 'utf8')))
  process.kill(front.program.pid as number, 'SIGHUP')

  await eventually(async () => {
    const { status } = await httpsGet(`${front.url}/reloaded`, { ca: replicas.ca })
    if (status !== 204) throw new Error(`not reloaded: ${status}`)
  })
}
