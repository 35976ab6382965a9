import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { eventually } from '../../support/eventually.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { listen } from './api-server.ts'
import { startConnections } from './connections-side.ts'
import { at, type FakeReplica, idleAre, poke, serves, startReplicas, tell } from './fake-replicas.ts'

/** Replicas come and go. agentk leaves a replica only when it has tunnels at two others (doc/internals/agentk-placement.md). */

type Three = [FakeReplica, FakeReplica, FakeReplica]

const leaving = { 'kas-features': ['leaving'] }

/** Returns the replica with an address where nothing listens. */
const unreachable = (replica: FakeReplica): FakeReplica => ({ ...replica, address: 'grpc://127.0.0.1:1' })

/** Starts a plain balancer: each connection goes to the next of `leadsTo`. @returns its address */
async function startFront(t: Test, leadsTo: FakeReplica[]): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const to = leadsTo.shift() as FakeReplica
    const replica = connect(Number(to.address.split(':').at(-1)), '127.0.0.1')
    for (const [from, other] of [
      [client, replica],
      [replica, client],
    ] as const) {
      sockets.add(from.on('error', () => undefined))
      from.once('close', () => other.destroy())
      from.pipe(other)
    }
  })
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `grpc://127.0.0.1:${await listen(server)}`
}

/** Sets the hints of replicas behind a front: names only. */
function tellNames(replicas: FakeReplica[], home: FakeReplica, standby: FakeReplica): void {
  for (const { kas, name } of replicas) {
    kas.hints = { 'kas-replica': [name], 'kas-home': [home.name], 'kas-standby': [standby.name] }
  }
}

const lastLeft = ({ kas }: FakeReplica) => kas.sessions.at(-1)?.closed

t.test('the standby becomes home: the old home is standby until another one is there', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [old, home, standby] = all
  const clock = new ManualClock()
  tell(all, old, home)
  const connections = await startConnections(t, old.address, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tell(all, home, unreachable(standby))
  await poke(old)
  await at(connections, 'kas-1', 'kas-0')
  await eventually(() => assert.deepEqual(clock.waits, [600_000]))
  t.match(old.kas.told.at(-1), { 'kas-role': ['standby'] })
  await serves(t, old)
  tell(all, home, standby)
  await poke(home)
  await clock.pass(600_000)
  await at(connections, 'kas-1', 'kas-2')
  await lastLeft(old)
})

t.test('the old home is lost, which is standby meanwhile: the one that is named is tried at once', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [old, home, standby] = all
  const clock = new ManualClock()
  tell(all, old, home)
  const connections = await startConnections(t, old.address, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tell(all, home, unreachable(standby))
  await poke(old)
  await eventually(() => assert.deepEqual(clock.waits, [600_000]))
  tell(all, home, standby)
  await poke(home)
  old.kas.close()
  await at(connections, 'kas-1', 'kas-2')
})

t.test('no second replica is named: the old home is left at once', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [old, home] = all
  tell(all, old, home)
  const connections = await startConnections(t, old.address)
  await at(connections, 'kas-0', 'kas-1')
  tell(all, home, undefined, leaving)
  await poke(old)
  await at(connections, 'kas-1', undefined)
  await lastLeft(old)
})

t.test('a replica leaves that knows of none that serves: what was wanted still is', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [home, standby] = all
  tell(all, home, standby)
  const connections = await startConnections(t, home.address)
  await at(connections, 'kas-0', 'kas-1')
  await idleAre(all, [2, 1])
  for (const replica of [standby, home]) {
    replica.kas.hints = { 'kas-replica': [replica.name], ...leaving }
    await poke(replica)
    // the second call may use the tunnel that was opened last
    for (let i = 0; i < 2; i++) await serves(t, replica)
    t.strictSame(connections.places, { home: 'kas-0', standby: 'kas-1' })
  }
})

t.test('home leaves, and where it should be is not reached: the standby is home, and both go on', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [old, other, right] = all
  const clock = new ManualClock()
  tell(all, old, other)
  const connections = await startConnections(t, old.address, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tell([other, right], right, other)
  tell([old], right, other, leaving)
  right.kas.hints = undefined // this replica does not send its name
  await poke(old)
  await eventually(() => assert.deepEqual(clock.waits, [10_000]))
  await clock.pass(10_000)
  await at(connections, 'kas-1', 'kas-0')
  await eventually(() => assert.deepEqual(clock.waits, [10_000, 60_000]))
  await serves(t, old)
  await clock.pass(10_000)
  await eventually(() => assert.deepEqual(clock.waits, [1000, 50_000]))
  await at(connections, 'kas-1', 'kas-0')
  tell([right], right, other)
  await clock.pass(1000)
  await at(connections, 'kas-2', 'kas-1')
  await lastLeft(old)
})

t.test('the replica of the standby leaves: it stays there until a front has led to another', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, old, next] = all
  const clock = new ManualClock()
  tellNames(all, home, old)
  const front = await startFront(t, [home, old, home, old, home, next])
  const connections = await startConnections(t, front, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tellNames(all, home, next)
  Object.assign(old.kas.hints ?? {}, leaving)
  await poke(old)
  for (const wait of [100, 200, 400]) {
    await eventually(() => assert.deepEqual(clock.waits, [wait]))
    await at(connections, 'kas-0', 'kas-1')
    await clock.pass(wait)
  }
  await at(connections, 'kas-0', 'kas-2')
  await idleAre(all, [2, 0, 1])
  await old.kas.sessions[0]?.closed
})

t.test('a standby that is not the one named is led home by GOAWAY: the one named is tried at once', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, other, named] = all
  const clock = new ManualClock()
  tellNames(all, home, named)
  const front = await startFront(t, [home, other, home, named])
  const connections = await startConnections(t, front, { clock })
  await at(connections, 'kas-0', 'kas-1')
  await eventually(() => assert.deepEqual(clock.waits, [600_000]))
  other.kas.sessions[0]?.close()
  await at(connections, 'kas-0', 'kas-2')
})

t.test(
  'the replica of the standby leaves and sends it away, which leads home: the next is tried at once',
  async (t) => {
    const all = (await startReplicas(t, 3)) as Three
    const [home, old, next] = all
    const clock = new ManualClock()
    tellNames(all, home, old)
    const front = await startFront(t, [home, old, home, home, home, home, next])
    const connections = await startConnections(t, front, { clock })
    await at(connections, 'kas-0', 'kas-1')
    tellNames(all, home, next)
    Object.assign(old.kas.hints ?? {}, leaving)
    await poke(old)
    for (const wait of [100, 200]) {
      await eventually(() => assert.deepEqual(clock.waits, [wait]))
      await clock.pass(wait)
    }
    await eventually(() => assert.deepEqual(clock.waits, [400]))
    old.kas.sessions[0]?.close()
    await at(connections, 'kas-0', 'kas-2')
  },
)

t.test('the standby that kas names leaves, which kas has not heard of yet: the old one goes on', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, old, named] = all
  const clock = new ManualClock()
  tell(all, home, old)
  const connections = await startConnections(t, home.address, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tell([home], home, named)
  Object.assign(named.kas.hints ?? {}, leaving)
  await poke(home)
  await eventually(() => assert.equal(named.kas.sessions.length, 1))
  await lastLeft(named)
  await eventually(() => assert.deepEqual(clock.waits, [10_000]))
  await at(connections, 'kas-0', 'kas-1')
  await serves(t, old)
  tell([named], home, named)
  await clock.pass(10_000)
  await at(connections, 'kas-0', 'kas-2')
  await lastLeft(old)
})

t.test('the only standby that kas names leaves: it serves until the one that it names is there', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, named, next] = all
  tell([home], home, named)
  tell([named], home, next, leaving)
  tell([next], home, next)
  const connections = await startConnections(t, home.address)
  await at(connections, 'kas-0', 'kas-2')
  await lastLeft(named)
  await idleAre(all, [2, 0, 1])
})

t.test('two that leave name one another as standby: each is dialled once', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, one, other] = all
  const clock = new ManualClock()
  tell([home, other], home, one)
  tell([one], home, other)
  for (const { kas } of [one, other]) Object.assign(kas.hints ?? {}, leaving)
  const connections = await startConnections(t, home.address, { clock })
  await eventually(() => assert.equal(other.kas.sessions.length, 1))
  await lastLeft(other)
  await eventually(() => assert.deepEqual(clock.waits, [10_000]))
  await at(connections, 'kas-0', 'kas-1')
  await serves(t, one)
  t.strictSame(
    all.map(({ kas }) => kas.sessions.length),
    [1, 1, 1],
  )
})

t.test('the home that kas names leaves, which kas has not heard of yet: agentk stays where it is', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [old, home] = all
  const clock = new ManualClock()
  tell([old], home)
  tell([home], old, undefined, leaving)
  const connections = await startConnections(t, old.address, { clock })
  await eventually(() => assert.equal(home.kas.sessions.length, 1))
  await lastLeft(home)
  await eventually(() => assert.deepEqual(clock.waits, [10_000]))
  await at(connections, 'kas-0', undefined)
  await serves(t, old)
  tell([home], home)
  await clock.pass(10_000)
  await at(connections, 'kas-1', undefined)
})

t.test('home leaves, and the new one has not heard of it yet: it is not gone back', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [old, home, standby] = all
  const clock = new ManualClock()
  tell(all, old, home)
  const connections = await startConnections(t, old.address, { clock })
  await at(connections, 'kas-0', 'kas-1')
  tell([old], home, unreachable(standby), leaving)
  await poke(old)
  await at(connections, 'kas-1', 'kas-0')
  await eventually(() => assert.deepEqual(clock.waits, [1000]))
  await idleAre([home], [3]) // two tunnels, and the one that reported the role
  await poke(home)
  // the third call may use the tunnel that was opened last
  for (let i = 0; i < 3; i++) await serves(t, home)
  t.strictSame(connections.places, { home: 'kas-1', standby: 'kas-0' })
  tell(all, home, standby)
  await poke(home)
  await clock.pass(1000)
  await at(connections, 'kas-1', 'kas-2')
  await lastLeft(old)
})
