import { once } from 'node:events'
import { createServer as createOps, type Server as OpsServer } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { Balancer } from '../../dev/balancer.ts'
import { eventually } from '../support/eventually.ts'

/** Starts a replica that sends its name to each client, then sends back all that it receives. */
async function startReplica(t: Test, name: string) {
  const replica = { status: 200, hangs: false }
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.write(`${name}:`)
    socket.pipe(socket)
  })
  const ops = createOps((_, response) => {
    if (!replica.hangs) response.writeHead(replica.status).end()
  })
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  t.teardown(async () => {
    cut()
    server.close()
    ops.closeAllConnections()
    ops.close()
  })
  const [port, opsPort] = [await listen(server), await listen(ops)]
  return Object.assign(replica, { name, opsPort, ports: [port], server, sockets, cut })
}

async function listen(server: Server | OpsServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as { port: number }).port
}

async function startBalancer(t: Test, replicas: readonly Awaited<ReturnType<typeof startReplica>>[]) {
  const balancer = new Balancer({ fronts: [0], replicas, askEveryMs: 20, askTimeoutMs: 200 })
  t.teardown(() => balancer.stop())
  await balancer.start()
  return balancer
}

/** @returns the replica's name, and its echo of `sent` */
async function ask(balancer: Balancer, sent = ''): Promise<string> {
  const socket = connect({ port: balancer.ports[0] as number, host: '127.0.0.1', allowHalfOpen: true })
  socket.end(sent)
  return text(socket)
}

t.test('each in turn, those that are ready; bytes and ends pass both ways', async (t) => {
  const replicas = await Promise.all(['a', 'b', 'c'].map((name) => startReplica(t, name)))
  const balancer = await startBalancer(t, replicas)
  const said = [await ask(balancer, 'x'), await ask(balancer, 'x'), await ask(balancer, 'x'), await ask(balancer, 'x')]
  t.same(said, ['a:x', 'b:x', 'c:x', 'a:x'])
  const big = 'y'.repeat(4_000_000)
  t.equal((await ask(balancer, big)).length, big.length + 2)

  const [, second] = replicas
  if (second) second.status = 500
  await eventually(() => balancer.ready.join() === 'a,c' || Promise.reject(new Error('b still is')))
  t.notOk([await ask(balancer), await ask(balancer), await ask(balancer)].includes('b:'))
})

t.test('one that refuses is passed by, and comes back; one that hangs is left out', async (t) => {
  const replicas = await Promise.all(['a', 'b'].map((name) => startReplica(t, name)))
  const balancer = await startBalancer(t, replicas)
  const [first, second] = replicas
  if (!first || !second) throw new Error('two were started')
  first.server.close() // its readiness still answers 200, as right after a kill
  await once(first.server, 'close')
  t.same([await ask(balancer), await ask(balancer)], ['b:', 'b:'])
  await once(first.server.listen(first.ports[0], '127.0.0.1'), 'listening')
  await eventually(async () => (await ask(balancer)) === 'a:' || Promise.reject(new Error('a is not back')))
  second.hangs = true
  await eventually(() => balancer.ready.join() === 'a' || Promise.reject(new Error('b still is')))
})

t.test('a cut is seen as a cut; without a replica a connection is refused', async (t) => {
  const replica = await startReplica(t, 'a')
  const balancer = await startBalancer(t, [replica])
  const socket = connect(balancer.ports[0] as number, '127.0.0.1')
  await once(socket, 'data')
  replica.cut()
  t.match(await once(socket, 'error'), [{ code: 'ECONNRESET' }])
  replica.status = 500
  await eventually(() => balancer.ready.length === 0 || Promise.reject(new Error('a still is')))
  await t.rejects(ask(balancer), { code: 'ECONNRESET' })
})
