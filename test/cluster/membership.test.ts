import t from 'tap'
import type { AgentId } from '../../src/call/call.ts'
import { bounds, itemBytes } from '../../src/membership/table/row.ts'
import { eventually } from '../support/eventually.ts'
import { connection, registration } from '../unit/membership/rows.ts'
import { startProcess } from './replica-process.ts'
import { createReplica, knowsAll, type Replica, startReplica, startReplicas, Way } from './replicas.ts'

const agent = 42n as AgentId
const holds = (replica: Replica, holder: Replica) =>
  replica.membership.holders(agent).some(({ row }) => row.instance === holder.membership.instance)

t.test('a replica alone is ready at once, and serves', async (t) => {
  const { membership } = await startReplica(t, 'kas-0')
  t.equal(membership.readiness(), undefined)
  t.strictSame(membership.rank('42'), ['kas-0'])
  t.match(membership.members(), [{ name: 'kas-0', state: 'serving', self: true, connected: true, instances: 1 }])
})

t.test('replicas find one another, publish what they hold, and agree on ranks', async (t) => {
  const [a, b, c] = (await startReplicas(t, 3)) as [Replica, Replica, Replica]
  a.membership.addConnection(connection('1', 42, { methods: ['/a.B/C', '/a.B/D'] }))
  b.membership.addConnection(connection('1'))
  await eventually(() => holds(c, a) && holds(c, b), c.membership)
  t.strictSame(
    c.membership.holders(agent).map(({ address }) => address),
    ['127.0.0.1:8155', '127.0.0.1:8155'],
  )
  t.match(c.membership.holders(agent).find(({ row }) => row.head.name === 'kas-0')?.connections, [
    { id: '1', agentId: 42n, pod: 'pod-1', methods: ['/a.B/C', '/a.B/D'] },
  ])
  for (const key of ['1', '42', 'x']) {
    t.strictSame(b.membership.rank(key), a.membership.rank(key))
    t.equal(a.membership.rank(key).length, 3)
  }
  a.membership.removeConnection('1')
  await eventually(() => !holds(c, a), c.membership)
  t.ok(holds(c, b))
  b.membership.registrations.add(registration(7n))
  await eventually(() => c.membership.registrations.of(agent).length === 1, c.membership)
  t.match(c.membership.registrations.of(agent), [{ instance: b.membership.instance, registration: registration(7n) }])
  t.equal(await c.metric('kas_members'), 3)
  t.equal(await c.metric('kas_row_connections'), 1, 'a pod that registered is no connection')
})

t.test('a joiner knows all rows when its start resolves', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  for (let i = 0; i < 300; i++) a.membership.registrations.add(registration(1n, 42 + i, { meta: new Uint8Array(4096) }))
  const c = createReplica(t, 'kas-2', { listed: [a.address, b.address] })
  t.match(c.membership.readiness(), /joining/)
  await c.membership.start()
  t.equal(c.membership.readiness(), undefined)
  t.equal(c.membership.row(a.membership.instance)?.registrations.size, 300, 'a row of more than 1 MB')
  t.ok(c.membership.row(b.membership.instance))
  t.strictSame(c.membership.rank('42').length, 2, 'it does not serve yet')
  c.membership.setState('serving')
  const listed = { ...c, address: `127.0.0.1:${c.membership.port}` }
  await eventually(() => knowsAll(a, [listed]), a.membership)
})

t.test('an agent whose connections would fill the row keeps no other out of it', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  const evil = 666n as AgentId
  const methods = (i: number) => Array.from({ length: 256 }, (_, k) => `/e${i}.${k}/`.padEnd(500, 'x'))
  for (let i = 0; i < 580; i++) a.membership.addConnection(connection(`e${i}`, 666, { methods: methods(i) }))
  a.membership.addConnection(connection('good', 42))
  await eventually(() => holds(b, a), b.membership)
  await eventually(() => b.membership.holders(evil).length === 1, b.membership)
  const bytes = b.membership.holders(evil).flatMap(({ connections }) => connections.map(itemBytes))
  t.ok(bytes.reduce((sum, one) => sum + one, 0) <= bounds.agentBytes)
  t.ok((await a.metric('kas_row_held_back_total', { reason: 'rate' })) > 0)
  const pulled = await b.metric('kas_row_pulls_total', { result: 'ok' })
  for (let i = 0; i < 580; i++) a.membership.removeConnection(`e${i}`)
  await eventually(() => b.membership.holders(evil).length === 0, b.membership)
  t.equal(await b.metric('kas_row_pulls_total', { result: 'ok' }), pulled, 'no row is fetched for it')
})

t.test('its own address in the list is recognised, also behind a way that it does not know', async (t) => {
  const a = createReplica(t, 'kas-0')
  await a.membership.start()
  const way = await Way.to(t, a.membership.port)
  a.source.list([`127.0.0.1:${a.membership.port}`, way.address])
  const b = await startReplica(t, 'kas-1', { listed: [`127.0.0.1:${a.membership.port}`] })
  await eventually(() => b.membership.row(a.membership.instance) !== undefined, b.membership)
  t.strictSame(
    a.lines.filter(({ level }) => level === 'warn'),
    [],
  )
})

t.test('one that leaves is out of the ranks at once, and its row goes with it', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  a.membership.addConnection(connection('1'))
  await eventually(() => holds(b, a), b.membership)
  a.membership.setState('leaving')
  await eventually(() => b.membership.rank('42').join() === 'kas-1', b.membership)
  t.ok(holds(b, a), 'it still serves what it has')
  await a.membership.stop()
  await eventually(() => b.membership.row(a.membership.instance) === undefined, b.membership)
  t.notOk(holds(b, a))
})

t.test('one that is killed is gone as soon as its address refuses', async (t) => {
  const a = await startProcess(t, 'kas-0')
  const b = await startReplica(t, 'kas-1', { listed: [a.address], timers: { forgetMs: 60_000 } })
  await eventually(() => b.membership.holders(agent).length === 1, b.membership)
  a.child.kill('SIGKILL')
  await eventually(() => b.membership.row(a.instance) === undefined, b.membership)
  t.strictSame(b.membership.holders(agent), [])
})

t.test('one that starts again under its name is another instance; no warning', async (t) => {
  const a = await startProcess(t, 'kas-0')
  const b = await startReplica(t, 'kas-1', { listed: [a.address] })
  await eventually(() => b.membership.row(a.instance) !== undefined, b.membership)
  a.child.kill('SIGKILL')
  await a.exited
  const again = await startProcess(t, 'kas-0', Number(a.address.split(':')[1]))
  await eventually(() => b.membership.row(again.instance)?.head.state === 'serving', b.membership)
  await eventually(() => b.membership.row(a.instance) === undefined, b.membership)
  t.match(b.membership.members(), [{ name: 'kas-0', instance: again.instance }, { name: 'kas-1' }])
  t.strictSame(
    b.lines.filter(({ msg }) => String(msg).startsWith('Two living')),
    [],
  )
})

t.test('two living instances of one name: one warning, the newest connection counts', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  const twin = await startReplica(t, 'kas-0', { listed: [a.address, b.address] })
  await eventually(() => b.membership.row(twin.membership.instance)?.head.state === 'serving', b.membership)
  t.strictSame(b.membership.rank('42').toSorted(), ['kas-0', 'kas-1'])
  t.match(b.membership.members()[0], { name: 'kas-0', instance: twin.membership.instance, instances: 2 })
  a.membership.addConnection(connection('1'))
  twin.membership.addConnection(connection('1'))
  await eventually(() => holds(b, a) && holds(b, twin), b.membership)
  const warnings = b.lines.filter(({ msg }) => String(msg).startsWith('Two living'))
  t.match(warnings, [{ level: 'warn', name: 'kas-0', instances: 2 }])
})

t.test('a split: each side forgets the other; healed, the tables agree again', async (t) => {
  const a = await startReplica(t, 'kas-0')
  const b = await startReplica(t, 'kas-1', { listed: [a.address] })
  const ways = [await Way.to(t, a.membership.port), await Way.to(t, b.membership.port)]
  const across = ways.map(({ address }) => address)
  const c = await startReplica(t, 'kas-2', { listed: across })
  const d = await startReplica(t, 'kas-3', { listed: [...across, c.address] })
  const all = [a, b, c, d]
  await Promise.all(all.map((replica) => eventually(() => knowsAll(replica, all), replica.membership)))
  for (const way of ways) way.cut()
  await Promise.all([
    eventually(() => a.membership.rows().length === 2, a.membership),
    eventually(() => c.membership.rows().length === 2, c.membership),
  ])
  t.strictSame(a.membership.rank('42').toSorted(), ['kas-0', 'kas-1'])
  t.strictSame(c.membership.rank('42').toSorted(), ['kas-2', 'kas-3'])
  a.membership.addConnection(connection('during'))
  c.membership.addConnection(connection('during'))
  for (const way of ways) way.blocked = false
  await Promise.all(all.map((replica) => eventually(() => knowsAll(replica, all), replica.membership)))
  await Promise.all([eventually(() => holds(b, c), b.membership), eventually(() => holds(d, a), d.membership)])
  t.strictSame(d.membership.rank('42'), a.membership.rank('42'))
})

t.test('a source that has not answered keeps a replica from being ready, for a while', async (t) => {
  const timers = { sourcePatienceMs: 200 }
  const a = createReplica(t, 'kas-0', { listed: undefined, timers })
  const started = a.membership.start()
  t.match(a.membership.readiness(), /static/)
  await started
  t.equal(a.membership.readiness(), undefined)
  t.match(a.lines, [{ level: 'warn', sources: ['static'] }])
  t.equal(await a.metric('kas_discovery_sources_silent'), 1)
})

t.test('a member that is listed and does not answer is left to anti-entropy', async (t) => {
  const silent = await Way.to(t, 1)
  silent.blocked = true
  const [a] = (await startReplicas(t, 1)) as [Replica]
  const timers = { joinMs: 300, handshakeMs: 60_000 }
  const b = await startReplica(t, 'kas-1', { listed: [a.address, silent.address], timers })
  t.ok(b.membership.row(a.membership.instance))
  t.equal(b.membership.readiness(), undefined)
})

t.test('one that is frozen is cut once it has been silent, and comes back when it thaws', async (t) => {
  const a = await startProcess(t, 'kas-0')
  const timers = { silenceMs: 1000, pullTimeoutMs: 200, forgetMs: 100 }
  const b = await startReplica(t, 'kas-1', { listed: [a.address], timers })
  await eventually(() => b.membership.holders(agent).length === 1, b.membership)
  a.child.kill('SIGSTOP')
  await eventually(() => b.membership.row(a.instance) === undefined, b.membership)
  a.child.kill('SIGCONT')
  await eventually(() => b.membership.holders(agent).length === 1, b.membership)
  t.equal(b.membership.holders(agent)[0]?.row.instance, a.instance)
})
