import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { absent } from '../support/absent.ts'
import {
  agents,
  carriesAll,
  clientOf,
  cutsLostWebSockets,
  type Fronted,
  goesRound,
  placesAgents,
  startAgents,
} from './front-cases.ts'
import { haproxyConnections, startHaproxy } from './front-program.ts'
import { FrontedReplicas } from './fronted-replicas.ts'

/** haproxy with the file of deploy/haproxy before three replicas, with agents by WebSocket and by gRPC behind it. */

const skip = absent('haproxy') && 'needs haproxy'

t.test('haproxy as the front', { skip, timeout: 120_000 }, async (t) => {
  const replicas = await FrontedReplicas.start(t)
  const fronted = { replicas, front: await startHaproxy(replicas) }
  const { grpc } = await startAgents(fronted)
  await carriesAll(t, fronted)
  await t.test('cannot be made to redirect by a caller', (t) => doesNotRedirect(t, fronted))
  await t.test('gives one address its share of connections', (t) => sharesConnections(t, fronted))
  await t.test('places agents', (t) => placesAgents(t, fronted))
  await t.test('goes round a replica that is away', (t) => goesRound(t, fronted))
  await t.test('cuts a WebSocket that is lost', (t) => cutsLostWebSockets(t, fronted, () => grpc.signal('SIGKILL')))
})

/** Checks the limit of connections of one address; clients that send nothing, not even TLS, have no other limit. */
async function sharesConnections(t: Test, fronted: Fronted): Promise<void> {
  const { hostname: host, port } = new URL(fronted.front.url)
  const silent = Array.from({ length: haproxyConnections + 1 }, () =>
    connect({ host, port: Number(port), localAddress: '127.0.0.2' }).on('error', () => undefined),
  )
  t.teardown(() => silent.forEach((socket) => void socket.destroy()))
  await Promise.race(silent.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve))))
  t.match(await clientOf(fronted, agents[0]).echo('/api'), { method: 'GET' }, 'others have theirs')
}

async function doesNotRedirect(t: Test, fronted: Fronted): Promise<void> {
  const { all, accelSecret } = fronted.replicas
  const headers = { 'Gitlab-Kas-Accel': accelSecret }
  for (const { name } of all) {
    t.match(await clientOf(fronted, agents[0]).echo('/api', { headers }), { method: 'GET' }, name)
  }
  for (const { name, outcomes } of all) t.equal((await outcomes()).redirected, 0, name)
}
