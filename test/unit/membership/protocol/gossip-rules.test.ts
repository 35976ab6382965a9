import t, { type Test } from 'tap'
import { maxMessageBytes } from '../../../../src/membership/protocol/announcer.ts'
import { floodMessagesPerCheck, maxMessagesPerCheck } from '../../../../src/membership/protocol/attendance.ts'
import { shareBounds } from '../../../../src/membership/table/agent-share.ts'
import { bounds, itemBytes } from '../../../../src/membership/table/row.ts'
import { decodeGossip, encodeGossip } from '../../../../src/membership/table/row-codec.ts'
import { FakeNetwork, FakeReplica, settled } from '../fake-network.ts'
import { connection, delta, head, instance, registration } from '../rows.ts'

async function network(t: Test, ...names: string[]) {
  const network = new FakeNetwork()
  t.teardown(() => network.stop())
  const replicas = network.add(...names)
  await settled()
  return { network, replicas: replicas as [FakeReplica, FakeReplica, ...FakeReplica[]] }
}
const kinds = (replica: FakeReplica) => replica.published.map((bytes) => decodeGossip(bytes).message?.kind)
const ids = (replica: FakeReplica, owner: FakeReplica) => [
  ...(replica.table.row(owner.instance)?.connections.keys() ?? []),
]

t.test('who connects gets the row at once; changes of 50 ms come together', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  t.equal(b.table.row(a.instance)?.version, 1)
  for (const id of ['1', '2', '3']) {
    a.own.add(connection(id))
    a.rules.ownChanged()
  }
  a.own.remove('2')
  a.rules.ownChanged()
  await net.advance(49)
  t.strictSame(kinds(a), [])
  await net.advance(1)
  t.strictSame(kinds(a), ['delta'])
  t.strictSame(ids(b, a), ['1', '3'])
  t.strictSame(b.pulls, [a.instance], 'without another pull')
})

t.test('a heartbeat after 2 s of silence, and each time again; a delta puts it off', async (t) => {
  const {
    network: net,
    replicas: [a],
  } = await network(t, 'a', 'b')
  await net.advance(1990)
  t.strictSame(kinds(a), [])
  await net.advance(20)
  t.strictSame(kinds(a), ['heartbeat'])
  await net.advance(1900)
  a.own.add(connection('1'))
  a.rules.ownChanged()
  await net.advance(1900)
  t.strictSame(kinds(a), ['heartbeat', 'delta'])
  await net.advance(200)
  t.strictSame(kinds(a), ['heartbeat', 'delta', 'heartbeat'])
})

t.test('nothing is published where nothing has changed, unless a version is asked for', async (t) => {
  const {
    network: net,
    replicas: [a],
  } = await network(t, 'a', 'b')
  a.rules.ownChanged()
  await net.advance(60)
  t.strictSame(kinds(a), [])
  a.rules.subscribed()
  await net.advance(60)
  t.strictSame(kinds(a), ['heartbeat'])
  a.rules.ownChanged({ now: true })
  t.strictSame(kinds(a), ['heartbeat', 'heartbeat'])
})

t.test('a lost delta is seen by the next, and the row fetched, once', async (t) => {
  const {
    network: net,
    replicas: [a, b, c],
  } = await network(t, 'a', 'b', 'c')
  net.loses = (_, to) => to === b
  a.own.add(connection('1'))
  a.rules.ownChanged({ now: true })
  net.loses = () => false
  for (const id of ['2', '3', '4']) {
    a.own.add(connection(id))
    a.rules.ownChanged({ now: true })
  }
  t.strictSame(ids(b, a), [], 'none of them fits')
  await net.advance(100)
  t.strictSame(ids(b, a), ['1', '2', '3', '4'])
  t.strictSame(b.pulls.filter((owner) => owner === a.instance).length, 2, 'one for the connection, one for the gap')
  t.strictSame(c?.pulls.filter((owner) => owner === a.instance).length, 1)
})

t.test('a delta that was lost with nothing after it is seen by the heartbeat', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  net.loses = () => true
  a.own.add(connection('1'))
  a.rules.ownChanged({ now: true })
  net.loses = () => false
  t.strictSame(ids(b, a), [])
  await net.advance(2200)
  t.strictSame(ids(b, a), ['1'])
})

t.test('deltas in the wrong order fill their gap without a pull', async (t) => {
  const {
    replicas: [a, b],
    network: net,
  } = await network(t, 'a', 'b')
  net.loses = () => true
  for (const id of ['1', '2', '3']) {
    a.own.add(connection(id))
    a.rules.ownChanged({ now: true })
  }
  for (const message of [a.published[2], a.published[1], a.published[0]])
    b.rules.received(a.instance, message as Uint8Array)
  t.strictSame(ids(b, a), ['1', '2', '3'])
  await net.advance(150)
  t.equal(b.pulls.length, 1, 'only the one for the connection')
})

t.test('deltas that come while the row is on its way are kept for it', async (t) => {
  const {
    replicas: [a, b],
    network: net,
  } = await network(t, 'a', 'b')
  const c = new FakeReplica(net, 'c')
  const gate = Promise.withResolvers<void>()
  c.own.add(connection('1'))
  const old = c.own.snapshot()
  net.pull = async () => {
    await gate.promise
    return old
  }
  net.replicas.push(c)
  c.rules.start()
  b.rules.connected(c.instance)
  c.own.takeDelta()
  c.own.add(connection('2'))
  c.rules.ownChanged({ now: true })
  t.equal(b.table.row(c.instance), undefined)
  gate.resolve()
  await settled()
  t.strictSame(ids(b, c), ['1', '2'])
  t.ok(a)
})

t.test('a pull that fails is tried again, with pauses; none once the connection is gone', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  net.beforePull = async () => {
    throw new Error('broken')
  }
  net.loses = () => true
  a.own.add(connection('1'))
  a.rules.ownChanged({ now: true })
  b.rules.refresh(a.instance)
  await net.advance(3000)
  t.ok(b.pulls.length >= 4 && b.pulls.length <= 7, `${b.pulls.length} pulls in 3 s`)
  net.beforePull = async () => undefined
  await net.advance(3000)
  t.strictSame(ids(b, a), ['1'])
  net.beforePull = () => Promise.reject(new Error('broken'))
  b.rules.refresh(a.instance)
  const before = b.pulls.length
  b.rules.disconnected(a.instance)
  await net.advance(5000)
  t.ok(b.pulls.length <= before + 1)
})

t.test('a row that took long is not fetched again at once, also by its owner on a new connection', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const [c] = net.add('c') as [FakeReplica]
  await settled()
  const fetched = (owner: FakeReplica) => b.pulls.filter((each) => each === owner.instance).length
  b.onChange = () => net.clock.advance(100) // time that the row takes
  a.own.add(connection('1'))
  b.rules.refresh(a.instance)
  await settled()
  b.onChange = () => undefined
  t.equal(fetched(a), 2)
  for (let i = 0; i < 8; i++) {
    b.rules.refresh(a.instance)
    b.rules.disconnected(a.instance)
    b.rules.connected(a.instance)
    b.rules.refresh(c.instance)
    await net.advance(100)
  }
  t.equal(fetched(a), 2, 'it rests')
  t.equal(fetched(c), 9, 'others do not')
  await net.advance(100)
  t.equal(fetched(a), 3, 'then it is fetched')
  b.rules.refresh(a.instance)
  await settled()
  t.equal(fetched(a), 4, 'one that took nothing needs no rest')
})

t.test('no row waits longer than a minute for the rest of the one before', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  net.loses = () => true // deltas are lost, but the connection is not cut
  a.own.add(connection('1'))
  b.onChange = () => net.clock.advance(20_000)
  b.rules.refresh(a.instance)
  await settled()
  b.onChange = () => undefined
  a.own.add(connection('2'))
  b.rules.refresh(a.instance)
  await net.advance(59_900)
  t.strictSame(ids(b, a), ['1'])
  await net.advance(200)
  t.strictSame(ids(b, a), ['1', '2'])
})

t.test('a pull that does not come back is given up', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const aborted: unknown[] = []
  net.pull = (_, __, signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => {
        aborted.push(signal.reason)
        reject(signal.reason)
      })
    })
  b.rules.refresh(a.instance)
  net.loses = () => true
  await net.advance(10_000)
  t.equal(aborted.length, 1)
})

t.test('changes over 256 KiB come in several deltas, a batch of 2 MiB at most, and no row is fetched', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const meta = new Uint8Array(bounds.metaBytes)
  for (let i = 0; i < 700; i++) a.own.add(registration(1n, 42 + i, { meta }))
  a.rules.ownChanged()
  await net.advance(50)
  t.strictSame(kinds(a), Array(8).fill('delta'))
  const known = () => b.table.row(a.instance)?.registrations.size ?? 0
  t.ok(known() < 700)
  await net.advance(50)
  t.strictSame(kinds(a), Array(12).fill('delta'))
  t.equal(known(), 700)
  t.ok(a.published.every((bytes) => bytes.length <= maxMessageBytes))
  t.strictSame(b.pulls, [a.instance], 'the one for the connection')
})

t.test('the largest connection fits in a delta', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const methods = Array.from({ length: 256 }, (_, i) => `/€${i}`.padEnd(160, '€'))
  const largest = connection('1', 42, { methods })
  t.ok(itemBytes(largest) > shareBounds.itemBytes * 0.9)
  a.own.add(largest)
  a.own.setHead({ ...head, name: 'n'.repeat(253), kasVersion: '€'.repeat(512), agentAddress: '€'.repeat(512) })
  a.rules.ownChanged()
  await net.advance(50)
  t.strictSame(ids(b, a), ['1'])
  t.strictSame(b.refused, [])
})

t.test('a row goes 10 s after its connection, or once nobody is at its address, or with its farewell', async (t) => {
  const {
    network: net,
    replicas: [a, b, c],
  } = await network(t, 'a', 'b', 'c')
  b.rules.lost(a.instance)
  t.ok(b.table.row(a.instance), 'not while it is connected')
  b.rules.disconnected(a.instance)
  await net.advance(9900)
  t.ok(b.table.row(a.instance))
  b.rules.connected(a.instance)
  await net.advance(5000)
  t.ok(b.table.row(a.instance), 'it came back')
  b.rules.disconnected(a.instance)
  b.rules.lost(a.instance)
  t.equal(b.table.row(a.instance), undefined)
  b.rules.disconnected(c?.instance ?? a.instance)
  await net.advance(10_000)
  t.equal(b.table.rows().length, 0)
  t.ok(a.table.row(b.instance))
  b.rules.stop()
  t.equal(a.table.row(b.instance), undefined)
})

t.test('late messages of one that said farewell are ignored', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  a.own.add(connection('1'))
  a.rules.ownChanged({ now: true })
  a.rules.stop()
  t.equal(b.table.row(a.instance), undefined)
  const pulls = b.pulls.length
  b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'heartbeat', version: 9 }))
  b.rules.received(a.instance, a.published[0] as Uint8Array)
  await net.advance(500)
  t.equal(b.table.row(a.instance), undefined)
  t.equal(b.pulls.length, pulls)
})

t.test('a silent instance is asked, then cut; a stall of our own is not its silence', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  net.loses = (from) => from === a
  net.beforePull = async () => {
    throw new Error('frozen')
  }
  await net.advance(7000)
  t.ok(b.pulls.length > 1, 'asked')
  t.strictSame(b.cuts, [])
  await net.advance(3000)
  t.strictSame(b.cuts[0], [a.instance, 'dead'])
})

t.test('an instance whose messages are lost but that gives its row is not cut', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  net.loses = (from) => from === a
  await net.advance(30_000)
  t.strictSame(b.cuts, [])
})

t.test('what is not signed by its owner, malformed, too large or from the future is refused', async (t) => {
  const {
    network: net,
    replicas: [a, b, c],
  } = await network(t, 'a', 'b', 'c')
  const change = delta(1, { connections: [connection('1')] })
  t.notOk(b.rules.received(c?.instance ?? b.instance, encodeGossip(a.instance, { kind: 'delta', delta: change })))
  t.notOk(b.rules.received(a.instance, Buffer.from('garbage')))
  t.notOk(b.rules.received(a.instance, new Uint8Array(maxMessageBytes + 1)))
  t.notOk(b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'delta', delta: { ...change, to: 1 } })))
  const wrongHead = { ...change, head: { ...head, name: 'no name' } }
  t.notOk(b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'delta', delta: wrongHead })))
  t.strictSame(b.refused, ['author', 'malformed', 'oversized', 'malformed', 'malformed'])
  t.equal(b.table.row(a.instance)?.version, 1, 'and changed nothing')
  const pulls = b.pulls.length
  b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'heartbeat', version: Number.MAX_SAFE_INTEGER }))
  await net.advance(1000)
  t.equal(b.pulls.length, pulls + 1, 'a version from the future costs one pull')
  t.equal(b.table.row(a.instance)?.version, 1)
})

t.test('a message of a kind that this version does not know passes through', async (t) => {
  const {
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const unknown = Buffer.concat([
    encodeGossip(a.instance, { kind: 'farewell' }).subarray(0, -2),
    Buffer.from([0x7a, 1, 0]),
  ])
  t.ok(b.rules.received(a.instance, unknown))
  t.ok(b.table.row(a.instance))
  t.strictSame(b.refused, [])
})

t.test('one that says too much is not listened to until the next check; a flood is cut', async (t) => {
  const {
    network: net,
    replicas: [a, b, c],
  } = await network(t, 'a', 'b', 'c')
  const heartbeat = encodeGossip(a.instance, { kind: 'heartbeat', version: 1 })
  const taken = Array.from({ length: maxMessagesPerCheck }, () => b.rules.received(a.instance, heartbeat))
  t.notOk(taken.includes(false))
  t.notOk(b.rules.received(a.instance, heartbeat))
  t.strictSame(b.refused, ['rate'])
  t.ok(
    b.rules.received(c?.instance ?? a.instance, encodeGossip(instance('c'), { kind: 'heartbeat', version: 1 })),
    'others are',
  )
  for (let i = 0; i < floodMessagesPerCheck; i++) b.rules.received(a.instance, heartbeat)
  t.strictSame(b.cuts, [[a.instance, 'flood']])
  await net.advance(1000)
  t.ok(b.rules.received(a.instance, heartbeat))
})

t.test('a new subscriber is told the version at once', async (t) => {
  const {
    network: net,
    replicas: [a],
  } = await network(t, 'a', 'b')
  a.rules.subscribed()
  a.rules.subscribed()
  await net.advance(50)
  t.strictSame(kinds(a), ['heartbeat'])
})

t.test('nothing runs after the stop', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  a.own.add(connection('1'))
  a.rules.ownChanged()
  b.rules.disconnected(a.instance)
  net.stop()
  await settled()
  t.equal(net.clock.pending, 0)
})

t.test('a fault of ours in a listener is reported as that: the message is taken, and nobody is refused', async (t) => {
  const {
    network: net,
    replicas: [a, b],
  } = await network(t, 'a', 'b')
  const fault = new Error('a listener fails')
  b.onChange = () => {
    throw fault
  }
  const change = delta(1, { connections: [connection('1')] })
  t.ok(b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'delta', delta: change })))
  t.strictSame(ids(b, a), ['1'])
  t.strictSame(b.failures, [fault])
  a.own.add(connection('1'))
  a.own.add(connection('2'))
  b.rules.refresh(a.instance)
  await net.advance(100)
  t.strictSame(ids(b, a), ['1', '2'])
  t.strictSame(b.failures, [fault, fault])
  t.equal(b.pulls.length, 2, 'and no pull is tried again for it')
  t.ok(b.rules.received(a.instance, encodeGossip(a.instance, { kind: 'farewell' })))
  t.strictSame(b.refused, [])
})
