import assert from 'node:assert/strict'
import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { FreezableFront } from '../../support/freezable-front.ts'
import { ManualClock, settle } from '../../support/manual-clock.ts'
import { patience } from '../../support/slowness.ts'
import { echoMethod, startConnections } from './connections-side.ts'
import { FakeKas, listenAs } from './fake-kas.ts'
import { at, type FakeReplica, idleAre, poke, serves, startReplicas, tell } from './fake-replicas.ts'

/** Places of agentk's tunnels, by the hints of kas (doc/internals/agentk-placement.md). */

type Three = [FakeReplica, FakeReplica, FakeReplica]

t.test('a kas that tells nothing: one connection, two idle tunnels', async (t) => {
  const [replica] = (await startReplicas(t, 1)) as [FakeReplica]
  const connections = await startConnections(t, replica.address)
  await idleAre([replica], [2])
  await serves(t, replica)
  t.strictSame(connections.places, { home: undefined, standby: undefined })
  t.equal(replica.kas.sessions.length, 1)
  t.match(replica.kas.told[0], { 'kas-features': ['home,ping,reuse'], 'kas-pod': ['pod-a'], 'kas-role': ['home'] })
})

t.test('a standby: one idle tunnel at the replica that is named, which serves calls', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, standby] = all
  tell(all, home, standby)
  const connections = await startConnections(t, home.address)
  await at(connections, 'kas-0', 'kas-1')
  await idleAre(all, [2, 1, 0])
  t.match(standby.kas.told[0], { 'kas-role': ['standby'] })
  await serves(t, standby)
})

t.test('another standby: the new one is there before the old one goes', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [home, first, second] = all
  tell(all, home, first)
  const connections = await startConnections(t, home.address)
  await at(connections, 'kas-0', 'kas-1')
  const { ended } = await first.kas.take()
  let left = false
  void first.kas.sessions[0]?.closed.then(() => {
    left = true
  })
  tell(all, home, second)
  await poke(home)
  await at(connections, 'kas-0', 'kas-2')
  t.notOk(left, 'it ends with what runs on it')
  ended.resolve(undefined)
  await first.kas.sessions[0]?.closed
  tell(all, home)
  await poke(home)
  await at(connections, 'kas-0', undefined)
  await idleAre([home], [2])
  await second.kas.sessions[0]?.closed
})

t.test('home is elsewhere: it moves there, and a call that runs at the old place goes on', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [old, home] = all
  tell(all, old)
  const connections = await startConnections(t, old.address)
  await at(connections, 'kas-0', undefined)
  const sessions: unknown[] = []
  connections.onSession((session) => sessions.push(session))
  const busy = await old.kas.take()
  busy.begin(echoMethod)
  busy.message(Buffer.from('x'))
  t.equal((await busy.next())?.kind, 'header')
  tell(all, home)
  await poke(old)
  await at(connections, 'kas-1', undefined)
  await idleAre(all, [0, 2])
  t.strictSame(sessions, [await connections.session(new AbortController().signal)], 'who needs home is told of it')
  t.equal((await busy.next())?.kind, 'message')
  busy.closeSend()
  t.equal((await busy.next())?.kind, 'trailer')
  busy.end()
  await old.kas.sessions[0]?.closed
  await serves(t, home)
})

t.test('home and standby change places: no connection is made for it', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [one, two] = all
  tell(all, one, two)
  const connections = await startConnections(t, one.address)
  await at(connections, 'kas-0', 'kas-1')
  tell(all, two, one)
  await poke(one)
  await at(connections, 'kas-1', 'kas-0')
  await eventually(() => assert.ok(two.kas.idle.length >= 2))
  t.strictSame(
    all.map(({ kas }) => kas.sessions.length),
    [1, 1],
  )
  t.match(two.kas.told.at(-1), { 'kas-role': ['home'] })
})

t.test('a move that does not come out there is not tried again for ten minutes', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [here, wrong, right] = all
  const clock = new ManualClock()
  tell(all, { ...right, address: wrong.address })
  const connections = await startConnections(t, here.address, { clock })
  await eventually(() => assert.equal(wrong.kas.sessions.length, 1))
  await wrong.kas.sessions[0]?.closed
  t.strictSame(connections.places, { home: 'kas-0', standby: undefined })
  await poke(here)
  await clock.pass(599_000)
  t.equal(wrong.kas.sessions.length, 1)
  tell(all, right)
  await poke(here)
  await settle()
  t.equal(right.kas.sessions.length, 0)
  await clock.pass(1001)
  await at(connections, 'kas-2', undefined)
})

t.test('a replica that does not say who it is is left, and not tried again', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [here, mute] = all
  tell(all, mute)
  mute.kas.hints = undefined
  const connections = await startConnections(t, here.address, { times: { landMs: 50 } })
  await eventually(() => assert.equal(mute.kas.sessions.length, 1))
  await mute.kas.sessions[0]?.closed
  await at(connections, 'kas-0', undefined)
  await poke(here)
  await serves(t, here)
  t.equal(mute.kas.sessions.length, 1)
})

t.test('home does not answer, and it is at the standby: home is tried as standby, and changes places', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [here, home] = all
  const clock = new ManualClock()
  const real = home.address
  tell(all, { ...home, address: 'grpc://127.0.0.1:1' }, here)
  const connections = await startConnections(t, here.address, { clock })
  await eventually(() => assert.equal(clock.waits.length, 2)) // both dials failed
  tell(all, { ...home, address: real }, here)
  await poke(here)
  await at(connections, 'kas-0', undefined)
  await clock.pass(60_000)
  await at(connections, 'kas-1', 'kas-0')
})

t.test('an address that agentk may not follow is not dialled; the front is asked by header', async (t) => {
  const upgrades: (string | undefined)[] = []
  const front = new FakeKas()
  const onUpgrade = (request: { headers: NodeJS.Dict<string | string[]> }) => {
    const route = request.headers['gitlab-kas-route'] as string | undefined
    upgrades.push(route)
    front.hints = {
      'kas-replica': [route ?? 'kas-0'],
      'kas-home': ['kas-1'],
      'kas-home-address': ['grpc://127.0.0.2:1'],
      'kas-standby': ['kas-2'],
    }
  }
  const port = await listenAs(t, front, 'ws', { onUpgrade })
  const connections = await startConnections(t, `ws://127.0.0.1:${port}`)
  await at(connections, 'kas-1', 'kas-2')
  t.strictSame(upgrades, [undefined, 'kas-1', 'kas-2'])
})

t.test('a front that leads anywhere: no move, and a standby wherever it is another replica', async (t) => {
  const front = new FakeKas()
  const comesOutAt = ['kas-0', 'kas-0', 'kas-0', 'kas-0', 'kas-2']
  let upgrades = 0
  const onUpgrade = () => {
    front.hints = { 'kas-replica': [comesOutAt[upgrades] ?? ''], 'kas-home': ['kas-1'], 'kas-standby': ['kas-3'] }
    upgrades += 1
  }
  const port = await listenAs(t, front, 'ws', { onUpgrade })
  const clock = new ManualClock()
  const connections = await startConnections(t, `ws://127.0.0.1:${port}`, { clock })
  await eventually(() => assert.equal(clock.waits.length, 2)) // the dials for home and for standby both reached kas-0
  t.strictSame([connections.places, upgrades], [{ home: 'kas-0', standby: undefined }, 3])
  await clock.pass(100)
  await eventually(() => assert.deepEqual([upgrades, clock.waits.filter((ms) => ms < 60_000)], [4, [200]]))
  t.strictSame(connections.places, { home: 'kas-0', standby: undefined }, 'it has led home again')
  await clock.pass(200)
  await at(connections, 'kas-0', 'kas-2')
  await clock.pass(400_000)
  t.equal(upgrades, 5)
})

t.test('home is lost: the front is dialled at once, and the standby serves meanwhile', async (t) => {
  const all = (await startReplicas(t, 3)) as Three
  const [entry, home, standby] = all
  tell(all, home, standby)
  const connections = await startConnections(t, entry.address)
  await at(connections, 'kas-1', 'kas-2')
  home.kas.close()
  await serves(t, standby)
  await at(connections, 'kas-0', 'kas-2')
  tell(all, standby, entry)
  await poke(entry)
  await at(connections, 'kas-2', 'kas-0')
  await serves(t, standby)
})

t.test('home is frozen: left after two PINGs without an answer; the standby serves meanwhile', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [home, standby] = all
  const front = await FreezableFront.start(t, Number(home.address.split(':').at(-1)))
  tell(all, home, standby, { 'kas-ping-interval-ms': ['1000'] })
  const connections = await startConnections(t, `grpc://127.0.0.1:${front.port}`)
  await at(connections, 'kas-0', 'kas-1')
  const [frozen] = home.kas.sessions
  const session = await connections.session(new AbortController().signal)
  front.freeze()
  const frozenAt = performance.now()
  await serves(t, standby)
  await session.closed
  const tookMs = performance.now() - frozenAt
  t.ok(tookMs < patience(3000), `${Math.round(tookMs)} ms`)
  await eventually(() => assert.notEqual(home.kas.sessions.at(-1), frozen))
  await at(connections, 'kas-0', 'kas-1')
})

t.test('it stops: a call that is on its way to an idle tunnel is served, and others end', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [home, standby] = all
  tell(all, home, standby)
  const connections = await startConnections(t, home.address, { times: { drainMs: 60_000 } })
  await at(connections, 'kas-0', 'kas-1')
  await idleAre(all, [2, 1])
  const taken = [await home.kas.take(), await standby.kas.take()]
  const limit = AbortSignal.timeout(patience(10_000))
  await connections.tunnels.leave?.(limit)
  const stopped = connections.tunnels.stop(limit)
  for (const tunnel of taken) {
    tunnel.begin(echoMethod)
    tunnel.message(Buffer.from('x'))
    tunnel.closeSend()
  }
  for (const tunnel of taken) {
    const kinds: string[] = []
    for (let message = await tunnel.next(); message; message = await tunnel.next()) kinds.push(message.kind)
    t.strictSame(kinds, ['header', 'message', 'trailer'])
    tunnel.end()
  }
  await stopped
  t.notOk(limit.aborted, 'kas has ended the one that waited')
  t.match(connections.counts, { idle: 0, active: 0, served: 2 })
})

t.test('it stops: what a kas leaves that knows nothing of it is cancelled after a while', async (t) => {
  const [replica] = (await startReplicas(t, 1)) as [FakeReplica]
  const connections = await startConnections(t, replica.address, { times: { drainMs: 50 } })
  await idleAre([replica], [2])
  const kept = await replica.kas.take() // not among those that kas ends when the agent leaves
  const limit = AbortSignal.timeout(patience(10_000))
  await connections.tunnels.stop(limit)
  t.notOk(limit.aborted)
  await t.rejects(kept.ended.promise, { code: 'CANCELLED' })
  t.match(connections.counts, { idle: 0, active: 0 })
})

t.test('stopped, nothing is left, also in the middle of a move', async (t) => {
  const all = (await startReplicas(t, 2)) as [FakeReplica, FakeReplica]
  const [here, home] = all
  tell(all, home)
  home.kas.hints = undefined // home never sends its name
  const connections = await startConnections(t, here.address)
  await eventually(() => assert.equal(home.kas.idle.length, 2))
  await connections.tunnels.stop()
  await connections.stop()
  t.match(connections.counts, { idle: 0, active: 0 })
  await Promise.all([...here.kas.sessions, ...home.kas.sessions].map(({ closed }) => closed))
  t.equal(connections.connected, false)
})
