import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:http2'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { parseKasAddress } from '../../src/agentk/tunnels/kas-address.ts'
import { dialKas } from '../../src/agentk/tunnels/transport.ts'
import { AgentConfiguration } from '../../src/proto/gen/agent_configuration_pb.ts'
import { GitopsStates } from '../../src/proto/gen/gitops_states_pb.ts'
import { Reports } from '../../src/proto/gen/views_pb.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { methodPath } from '../../src/proto/unary.ts'
import { eventually } from '../support/eventually.ts'
import { FakeAgent } from '../support/fake-agent.ts'
import { bearerFor, FrontClient, kubernetesPath } from './front-client.ts'
import type { RunningFront } from './front-program.ts'
import { type FrontedReplica, type FrontedReplicas, otherAgents, tokenOf } from './fronted-replicas.ts'

/** Promises of each front that is shipped. */

export interface Fronted {
  readonly replicas: FrontedReplicas
  readonly front: RunningFront
}

/** the first connects by WebSocket, the second by gRPC */
export const agents = [42, 43] as const

export async function startAgents({ replicas, front }: Fronted) {
  const [webSocket, grpc] = await Promise.all([
    replicas.startAgentk(agents[0], webSocketAddress(front)),
    replicas.startAgentk(agents[1], grpcAddress(front)),
  ])
  return { webSocket, grpc }
}

export const clientOf = ({ replicas, front }: Fronted, agent: number) =>
  new FrontClient({ url: front.url, ca: replicas.ca }, agent)

/** Returns the replica that does not hold the agent. */
export async function withoutAgent(replicas: FrontedReplicas, agent: number): Promise<FrontedReplica> {
  const holders = await replicas.holders(agent, 2)
  return replicas.all.find(({ name }) => !holders.includes(name)) as FrontedReplica
}

/** Resolves when the next request through the front arrives at `replica`: fronts choose replicas in turn. */
export async function turnOf(replica: FrontedReplica, client: FrontClient, count = 3): Promise<void> {
  const before = replica.relay.connections
  for (let i = 0; replica.relay.connections === before; i++) {
    assert.ok(i < 2 * count, `no request comes to ${replica.name}`)
    await client.echo('/turn')
  }
  for (let i = 1; i < count; i++) await client.echo('/turn')
}

/** Makes requests of all forms, as often as there are replicas, so that each is the entry. */
async function carriesRequests(t: Test, fronted: Fronted): Promise<void> {
  for (const agent of agents) {
    const client = clientOf(fronted, agent)
    for (const { name } of fronted.replicas.all) {
      const got = await client.echo('/api/v1/pods%20x?labelSelector=a%3Db%2Fc&watch=0')
      t.match(got, { method: 'GET', url: '/api/v1/pods%20x?labelSelector=a%3Db%2Fc&watch=0' }, `${name}: as it came`)
      const long = `/api/v1/namespaces/a/pods/b/log?${'command=x&'.repeat(50_000)}q=${'%20'.repeat(150_000)}`
      t.equal((await client.echo(long)).url, long, `${name}: 1 MiB of a head`)
      const body = randomBytes(100_000)
      const sha256 = createHash('sha256').update(body).digest('hex')
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const { bytes, ...sent } = await client.echo('/api/v1/pods', { method, body })
        t.match({ ...sent, bytes }, { method, bytes: body.length, sha256 }, `${method} with a body`)
      }
      t.match(await client.echo('/api/v1/pods', { method: 'DELETE' }), { method: 'DELETE', bytes: 0 })
    }
  }
}

/** Makes requests as kubectl does: many streams on one connection. */
async function carriesHttp2(t: Test, fronted: Fronted): Promise<void> {
  const { url } = fronted.front
  const session = connect(url, { ca: fronted.replicas.ca })
  t.teardown(() => session.destroy())
  const body = randomBytes(100_000)
  const sha256 = createHash('sha256').update(body).digest('hex')
  const ask = async (method: string, agent: number) => {
    const headers = { ':method': method, ':path': `${kubernetesPath}/api/v1/pods`, authorization: bearerFor(agent) }
    const stream = session.request(headers, { endStream: method === 'GET' })
    if (method !== 'GET') stream.end(body)
    const answer = JSON.parse(await text(stream)) as { method: string; bytes: number; sha256: string }
    t.match(answer, { method, ...(method === 'GET' ? { bytes: 0 } : { sha256 }) }, `${method} to agent ${agent}`)
  }
  const methods = ['GET', 'POST', 'PUT', 'DELETE', 'GET', 'GET']
  await Promise.all(methods.flatMap((method) => agents.map((agent) => ask(method, agent))))
}

/** Checks that each event arrives before the next is sent. */
async function carriesWatches(t: Test, fronted: Fronted): Promise<void> {
  const { cluster } = fronted.replicas
  const leave = new AbortController()
  t.teardown(() => leave.abort())
  const watches = await Promise.all(
    agents.flatMap((agent) =>
      fronted.replicas.all.map(() => clientOf(fronted, agent).lines('/events', { signal: leave.signal })),
    ),
  )
  for (const event of ['one', 'two', 'three']) {
    cluster.emitEvent(`${event}\n`)
    for (const watch of watches) t.equal((await watch.next()).value, event)
  }
}

/** Forms in which kubectl runs commands; the double returns all bytes. */
export const upgrades = [
  { protocol: 'SPDY/3.1', method: 'POST' },
  { protocol: 'websocket', method: 'GET' },
] as const

async function carriesUpgrades(t: Test, fronted: Fronted): Promise<void> {
  for (const agent of agents) {
    for (const { protocol, method } of upgrades) {
      for (const { name } of fronted.replicas.all) {
        const socket = await clientOf(fronted, agent).upgrade('/exec', protocol, method)
        t.ok(await echoesAll(socket), `${protocol} to agent ${agent}, for the turn of ${name}`)
      }
    }
    await t.rejects(clientOf(fronted, agent).upgrade('/refuse-upgrade', 'SPDY/3.1', 'POST'), { message: /403/ })
  }
}

/** Returns true if the bytes that go in come out, more than the buffers on the way together. */
export async function echoesAll(socket: Duplex): Promise<boolean> {
  const payload = randomBytes(200_000)
  const expected = Buffer.concat([Buffer.from('first,'), payload])
  socket.write(payload)
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of socket) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= expected.length) break
  }
  return Buffer.concat(chunks).equals(expected)
}

/**
 * Checks the places of agents. An agent that names a replica connects to it; another one always connects to the same
 * replica, by its token.
 */
export async function placesAgents(t: Test, { replicas, front }: Fronted): Promise<void> {
  const [agent = 0, ...others] = otherAgents.filter((id) => !agents.some((used) => used === id))
  for (const address of [webSocketAddress(front), grpcAddress(front)]) {
    for (const { name } of replicas.all) {
      t.same(await placeOf({ replicas, front }, { agent, address, route: name }), [name], `${address} asks for ${name}`)
    }
    const placed = await placeOf({ replicas, front }, { agent, address, route: 'kas-77' })
    t.equal(placed.length, 1, 'one that asks for a replica that is not there comes to another')
  }
  const places = new Set<string>()
  for (const agent of others.slice(0, 3)) {
    const first = await placeOf({ replicas, front }, { agent, address: webSocketAddress(front) })
    t.same(await placeOf({ replicas, front }, { agent, address: grpcAddress(front) }), first, 'by either way')
    t.same(await placeOf({ replicas, front }, { agent, address: webSocketAddress(front) }), first, 'each time')
    places.add(String(first))
  }
  // nginx places agents also by the replicas' random ports: a few may all get one replica, so more are placed
  for (const agent of others.slice(3)) {
    if (places.size > 1) break
    places.add(String(await placeOf({ replicas, front }, { agent, address: webSocketAddress(front) })))
  }
  t.ok(places.size > 1, 'not all at one')
}

interface Placed {
  readonly agent: number
  readonly address: string
  readonly route?: string
}

/** Connects an agent with one tunnel, then closes it. @returns names of its holders */
async function placeOf({ replicas }: Fronted, { agent, address, route }: Placed): Promise<string[]> {
  const caFile = `${replicas.processes.folder}/ca.crt`
  const fake = await dialFake(caFile, { agent, address, ...(route === undefined ? {} : { route }) })
  try {
    fake.open([kubernetesApiMethod])
    return await replicas.holders(agent, 1)
  } finally {
    fake.close()
    fake.socket.destroy()
    await eventually(() => replicas.holders(agent, 0))
  }
}

/** Connects a fake agent as agentk connects. */
export async function dialFake(caFile: string, { agent, address, route }: Placed): Promise<FakeAgent> {
  const authorization = `Bearer ${tokenOf(agent)}`
  const duplex = await dialKas(
    {
      address: parseKasAddress(address),
      caFile,
      headers: route === undefined ? [] : [['Gitlab-Kas-Route', route] as const],
      userAgent: 'test',
      authorization: () => authorization,
      env: {},
    },
    AbortSignal.timeout(10_000),
  )
  const metadata = route === undefined ? {} : { 'gitlab-kas-route': [route] }
  return new FakeAgent(duplex, { authorization: [authorization], ...metadata })
}

/** Checks that a cluster's answer cannot steer a front, with each replica as the entry. */
async function ignoresClusters(t: Test, fronted: Fronted): Promise<void> {
  for (const { name } of fronted.replicas.all) {
    for (const method of ['GET', 'POST']) {
      const body = method === 'POST' ? { body: Buffer.from('{}') } : {}
      const answer = await clientOf(fronted, agents[0]).send('/steering', { method, ...body })
      t.match(answer, { status: 200, body: Buffer.from('not steered') }, name)
    }
  }
}

/** Checks that no request is lost when its replica cannot be reached. */
export async function goesRound(t: Test, fronted: Fronted): Promise<void> {
  const { replicas } = fronted
  const [holder] = await replicas.holders(agents[0], 2)
  replicas.all.find(({ name }) => name === holder)?.relay.stop()
  const client = clientOf(fronted, agents[0])
  for (const { name } of [...replicas.all, ...replicas.all]) {
    for (const { protocol, method } of upgrades) {
      t.ok(await echoesAll(await client.upgrade('/exec', protocol, method)), `${protocol}, at the turn of ${name}`)
    }
    for (const method of ['GET', 'DELETE', 'POST']) {
      const body = method === 'POST' ? { body: Buffer.from('{}') } : {}
      t.match(await client.echo('/api', { method, ...body }), { method }, `${method}, at the turn of ${name}`)
    }
  }
}

/**
 * Loses the agent of a WebSocket that may have reached its cluster: it gets no answer, since kubectl would run the
 * command again.
 */
export async function cutsLostWebSockets(t: Test, fronted: Fronted, lose: () => void): Promise<void> {
  const hanging = fronted.replicas.cluster.nextHanging()
  const upgrade = clientOf(fronted, agents[1]).upgrade('/hang', 'websocket', 'GET')
  const lost = t.rejects(upgrade, { code: 'ECONNRESET' })
  await hanging
  lose()
  await lost
}

export function webSocketAddress({ url }: RunningFront): string {
  return `${url.replace('https:', 'wss:')}/-/kubernetes-agent/`
}

export function grpcAddress({ url }: RunningFront): string {
  return url.replace('https:', 'grpcs:')
}

/** Checks that kas, not the front, answers the calls of agents to kas' own services. */
async function carriesOwnServices(t: Test, { front, replicas }: Fronted): Promise<void> {
  const session = connect(front.url, { ca: replicas.ca })
  t.teardown(() => session.destroy())
  const services = [AgentConfiguration, GitopsStates, Reports]
  for (const path of services.flatMap(({ methods }) => methods).map(methodPath)) {
    const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' }
    const [head] = (await once(session.request(headers, { endStream: true }), 'response')) as [object]
    t.match(head, { ':status': 200, 'content-type': /^application\/grpc/ }, path)
  }
}

/** Checks the promises of every front. */
export async function carriesAll(t: Test, fronted: Fronted): Promise<void> {
  await t.test('carries requests', (t) => carriesRequests(t, fronted))
  await t.test('carries HTTP/2', (t) => carriesHttp2(t, fronted))
  await t.test('carries what agents call', (t) => carriesOwnServices(t, fronted))
  await t.test('carries watches', (t) => carriesWatches(t, fronted))
  await t.test('carries upgrades', (t) => carriesUpgrades(t, fronted))
  await t.test('is not steered by clusters', (t) => ignoresClusters(t, fronted))
}
