import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import type { AccessLine } from '../../src/kas/access-log/access-line.ts'
import { kubernetesApiMethod } from '../../src/proto/http/http-over-grpc.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'
import { FakeAgent } from '../support/fake-agent.ts'
import { agents, dialFake, grpcAddress, webSocketAddress } from './front-cases.ts'
import { bearerFor, kubernetesPath } from './front-client.ts'
import { type PassingFront, startHaproxy, startNginx, startPassingHaproxy, startPassingNginx } from './front-program.ts'
import { FrontedReplicas, tokenOf } from './fronted-replicas.ts'

/**
 * kas identifies callers behind nginx and haproxy by their own address, by header and by PROXY (doc/operate/client-address.md).
 */

/** address from which fronts connect; agentk and others connect from 127.0.0.1 */
const source = '127.0.0.9'
const forged = '198.51.100.1'
const streamModule = '/usr/lib/nginx/modules/ngx_stream_module.so'
const [direct, webSocket, grpc] = [44, ...agents] as const

interface Way {
  readonly replicas: FrontedReplicas
  /** URL with the path of the Kubernetes API, without a `/` at its end */
  readonly kubernetes: string
  /** port of 127.0.0.1 where agents connect by gRPC over TLS */
  readonly agentsPort: number
  /** number of entries of an `X-Forwarded-For` that passes the front */
  readonly entries: number
  /** connections end at kas, which speaks no HTTP/2 on 8154 */
  readonly isHttp1?: boolean
}

/** haproxy accepts at most 16 KiB of headers */
const entriesOf = { nginx: 10_000, haproxy: 1000 }

const trusting = (more: object) => (folder: string) => ({
  trusted_proxies: [source],
  ...more,
  ...('proxy_protocol' in more
    ? { certificate_file: join(folder, 'front.crt'), key_file: join(folder, 'front.key') }
    : {}),
})

/** Replicas without the relay: the front connects to 8154 itself. */
const behind = ({ all }: FrontedReplicas) =>
  all.map((replica) => ({ ...replica, relay: { port: replica.kubernetesPort } }))

for (const [name, startFront] of Object.entries({ nginx: startNginx, haproxy: startHaproxy })) {
  const entries = entriesOf[name as keyof typeof entriesOf]
  const skip = absent(name) && `needs ${name}`
  t.test(`${name}, X-Forwarded-For`, { skip, timeout: 120_000 }, async (t) => {
    const replicas = await FrontedReplicas.start(t, { listen: trusting({}) })
    const front = await startFront(replicas, behind(replicas), source)
    await replicas.startAgentk(webSocket, webSocketAddress(front))
    await replicas.startAgentk(grpc, grpcAddress(front))
    for (const id of [webSocket, grpc]) {
      const line = await lineOf(replicas, ({ event, agent_id: of }) => event === 'agent_connected' && of === String(id))
      t.equal(line.address, '127.0.0.1', `agent ${id}: its own address, not that of the front`)
    }
    const way = {
      replicas,
      kubernetes: `${front.url}${kubernetesPath}`,
      agentsPort: Number(new URL(front.url).port),
      entries,
    }
    await knowsCallers(t, way)
    const inside = await dialFake(join(replicas.processes.folder, 'ca.crt'), {
      agent: direct,
      address: webSocketAddress(front),
    })
    t.teardown(() => inside.close())
    inside.open([kubernetesApiMethod])
    const line = await lineOf(
      replicas,
      ({ event, agent_id: of }) => event === 'agent_connected' && of === String(direct),
    )
    t.equal(line.address, '127.0.0.1', 'by WebSocket')
  })
}

for (const version of [1, 2] as const) {
  const skip = absent('haproxy') && 'needs haproxy'
  t.test(`haproxy, PROXY version ${version}`, { skip, timeout: 120_000 }, async (t) => {
    const replicas = await FrontedReplicas.start(t, { listen: trusting({ proxy_protocol: true }) })
    await passes(t, replicas, await startPassingHaproxy(replicas, behind(replicas), { source, version }))
  })
}

const skip = (absent('nginx') || !existsSync(streamModule)) && 'needs nginx with libnginx-mod-stream'
t.test('nginx, PROXY', { skip, timeout: 120_000 }, async (t) => {
  const replicas = await FrontedReplicas.start(t, { listen: trusting({ proxy_protocol: true }) })
  const [replica] = behind(replicas)
  assert.ok(replica)
  await passes(t, replicas, await startPassingNginx(replicas, replica, { source, module: streamModule }))
})

/** Checks a front that passes connections on: TLS, and HTTP/2 of agents, end at kas. */
async function passes(t: Test, replicas: FrontedReplicas, { agentsPort, kubernetesPort }: PassingFront): Promise<void> {
  const schemes = { [webSocket]: 'wss', [grpc]: 'grpcs' }
  for (const [id, scheme] of Object.entries(schemes)) {
    await replicas.startAgentk(Number(id), `${scheme}://127.0.0.1:${agentsPort}`, { holders: 'some' })
    const line = await lineOf(replicas, ({ event, agent_id: of }) => event === 'agent_connected' && of === id)
    t.equal(line.address, '127.0.0.1', `agent ${id}: its own address, not that of the front`)
  }
  await knowsCallers(t, {
    replicas,
    kubernetes: `https://127.0.0.1:${kubernetesPort}`,
    agentsPort,
    entries: 10_000,
    isHttp1: true,
  })
}

/** Checks that kas sees each caller's own address, whatever the caller sends. */
async function knowsCallers(t: Test, way: Way): Promise<void> {
  await t.test('callers on 8154, HTTP/1.1', (t) => knowsRequests(t, way, askHttp1))
  if (!way.isHttp1) await t.test('callers on 8154, HTTP/2', (t) => knowsRequests(t, way, askHttp2))
  await t.test('strangers on 8154: a line each', (t) => countsStrangers(t, way))
  await t.test('agents on 8150', (t) => knowsAgents(t, way))
}

interface Asked {
  readonly url: string
  readonly ca: string
  readonly localAddress: string
  readonly headers: Readonly<Record<string, string>>
}

async function knowsRequests(
  t: Test,
  { replicas, kubernetes, entries }: Way,
  ask: (asked: Asked) => Promise<string>,
): Promise<void> {
  const forgeries: Record<string, string>[] = [
    {},
    { 'x-forwarded-for': forged },
    { 'x-forwarded-for': `${forged}, ${source}`, 'x-real-ip': forged, forwarded: `for=${forged}` },
    { 'x-forwarded-for': Array<string>(entries).fill('::1').join(',') },
    { 'x-forwarded-for': 'fe80::1%eth0, unknown, ' },
  ]
  for (const [i, forgery] of forgeries.entries()) {
    const localAddress = `127.0.0.${20 + i}`
    const url = `${kubernetes}/api/v1/pods/${ask.name}-${i}`
    const headers = { authorization: bearerFor(webSocket), ...forgery }
    const answer = await ask({ url, ca: replicas.ca, localAddress, headers })
    const reached = JSON.parse(answer) as { headers: Record<string, string> }
    const name = JSON.stringify(forgery).slice(0, 80)
    t.equal(reached.headers['x-forwarded-for'], localAddress, `the cluster is told: ${name}`)
    t.strictSame([reached.headers['x-real-ip'], reached.headers.forwarded], [undefined, undefined])
    const line = await lineOf(replicas, ({ event, name }) => event === 'end' && name === `${ask.name}-${i}`)
    t.equal(line.address, localAddress, name)
  }
}

/** Checks that refusals are counted for each address. */
async function countsStrangers(t: Test, { replicas, kubernetes }: Way): Promise<void> {
  const strangers = ['127.0.0.31', '127.0.0.32', '127.0.0.33']
  for (const localAddress of strangers) {
    const headers = { authorization: bearerFor(webSocket).slice(0, -1), 'x-forwarded-for': forged }
    t.match(await askHttp1({ url: `${kubernetes}/version`, ca: replicas.ca, localAddress, headers }), /401|nauthorized/)
  }
  for (const stranger of strangers)
    await lineOf(replicas, ({ event, address }) => event === 'refused' && address === stranger)
  const all = linesOf(replicas)
  t.strictSame(
    all.filter(({ address }) => address === source || address === forged),
    [],
    'nobody is the front',
  )
}

async function knowsAgents(t: Test, { replicas, agentsPort }: Way): Promise<void> {
  const [localAddress, token] = ['127.0.0.41', tokenOf(45)]
  const socket = dial(replicas, agentsPort, localAddress)
  t.teardown(() => socket.destroy())
  await once(socket, 'secureConnect')
  const agent = new FakeAgent(socket, { authorization: [`Bearer ${token}`], 'x-forwarded-for': [forged] })
  agent.open([kubernetesApiMethod])
  const line = await lineOf(replicas, ({ event, agent_id: of }) => event === 'agent_connected' && of === '45')
  t.equal(line.address, localAddress)
  const stranger = dial(replicas, agentsPort, '127.0.0.42')
  t.teardown(() => stranger.destroy())
  await once(stranger, 'secureConnect')
  await new FakeAgent(stranger, { authorization: ['Bearer no'], 'x-forwarded-for': [forged] }).openSilently().done
  await lineOf(replicas, ({ event, address }) => event === 'agent_refused' && address === '127.0.0.42')
}

function dial({ ca }: FrontedReplicas, port: number, localAddress: string): TLSSocket {
  const options = { host: '127.0.0.1', port, localAddress, ca, ALPNProtocols: ['h2'] }
  return connect(options)
}

async function askHttp1({ url, ...options }: Asked): Promise<string> {
  const asked = request(url, { ...options, agent: false })
  const answered = once(asked, 'response')
  asked.end()
  const [answer] = await answered
  return await text(answer)
}

async function askHttp2({ url, ca, localAddress, headers }: Asked): Promise<string> {
  const { origin, pathname } = new URL(url)
  const session = connectHttp2(origin, { ca, localAddress } as object)
  try {
    return await text(session.request({ ':path': pathname, ...headers }))
  } finally {
    session.destroy()
  }
}

const linesOf = ({ all }: FrontedReplicas): AccessLine[] => all.flatMap(({ lines }) => lines)

/** The line of the access log, once it is written. */
async function lineOf(replicas: FrontedReplicas, isMeant: (line: AccessLine) => boolean): Promise<AccessLine> {
  return await eventually(() => {
    const line = linesOf(replicas).find(isMeant)
    assert.ok(line, 'no such line')
    return line
  })
}
