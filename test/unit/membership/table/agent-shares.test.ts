import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { type PublishLimit, shareBounds } from '../../../../src/membership/table/agent-share.ts'
import { AgentShares } from '../../../../src/membership/table/agent-shares.ts'
import { OwnRow } from '../../../../src/membership/table/own-row.ts'
import { bounds, itemBytes, type RowConnection, type RowDelta } from '../../../../src/membership/table/row.ts'
import { Table } from '../../../../src/membership/table/table.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { connection, head, instance, registration, seeded } from '../rows.ts'

const owner = instance('a')
const evil = 666
/** 66 KiB of methods: three such sets fit into a share */
const longMethods = (prefix: string) => Array.from({ length: 256 }, (_, i) => `/${prefix}${i}`.padEnd(260, 'x'))

/** A published row with shares, and another replica that receives it. */
class World {
  readonly clock = new ManualClock()
  readonly own = new OwnRow(owner, head)
  readonly table = new Table()
  readonly limited: [agentId: AgentId, limit: PublishLimit][] = []
  readonly podChanges: AgentId[] = []
  readonly deltas: RowDelta[] = []
  readonly shares = new AgentShares({
    clock: this.clock,
    own: this.own,
    due: () => undefined,
    podsChanged: (agentId) => void this.podChanges.push(agentId),
    publishLimited: (agentId, limit) => void this.limited.push([agentId, limit]),
  })

  constructor() {
    this.table.put(this.own.snapshot())
  }

  publish(): number {
    this.shares.gather()
    const delta = this.own.takeDelta()
    if (!delta) return 0
    this.deltas.push(delta)
    this.table.apply(owner, delta)
    return [...delta.connections, ...delta.registrations].reduce((sum, item) => sum + itemBytes(item), 0)
  }

  /** Passes enough time to publish everything. */
  settle(): void {
    for (let i = 0; i < 60; i++) this.pass(1000)
  }

  pass(ms: number): number {
    this.clock.advance(ms)
    return this.publish()
  }

  /** Connections that another replica reads. */
  received(agentId: number): readonly RowConnection[] {
    return this.table.holders(BigInt(agentId) as AgentId)[0]?.connections ?? []
  }

  methods(agentId: number): string[] {
    return [...new Set(this.received(agentId).flatMap(({ methods }) => methods))].sort()
  }

  bytesOf(agentId: number): number {
    return this.received(agentId).reduce((sum, one) => sum + itemBytes(one), 0)
  }

  ids(agentId: number): string[] {
    return this.received(agentId).map(({ id }) => id)
  }
}

t.test('connections that serve the same methods name them once', async (t) => {
  const world = new World()
  const methods = longMethods('same')
  for (let i = 0; i < bounds.itemsOfAgent; i++) {
    world.shares.put(connection(`e${i}`, evil, { methods: [...methods].reverse() }))
  }
  world.settle()
  t.equal(world.received(evil).length, bounds.itemsOfAgent)
  t.ok(world.bytesOf(evil) < bounds.agentBytes, `${world.bytesOf(evil)} bytes`)
  t.strictSame(world.methods(evil), methods.toSorted())
  t.strictSame(
    world.limited.map(([, reason]) => reason).filter((reason) => reason !== 'rate'),
    [],
  )
})

t.test('an agent over its share is limited, and nobody else', async (t) => {
  const world = new World()
  for (let i = 0; i < 1160; i++) world.shares.put(connection(`e${i}`, evil, { methods: longMethods(`s${i}-`) }))
  for (let i = 1; i <= 100; i++) world.shares.put(connection(`g${i}`, i))
  world.publish()
  for (let i = 1; i <= 100; i++) t.strictSame(world.ids(i), [`g${i}`])
  world.settle()
  t.ok(world.bytesOf(evil) <= bounds.agentBytes)
  t.strictSame(world.ids(evil), ['e0', 'e1', 'e2'], 'the first stay')
  t.ok(world.limited.some(([agentId, reason]) => agentId === BigInt(evil) && reason === 'share'))
  t.notOk(world.limited.some(([agentId]) => agentId !== BigInt(evil)))
  world.shares.remove('e1')
  world.settle()
  t.strictSame(world.ids(evil), ['e0', 'e2', 'e3'], 'who waited comes in once there is room')
  t.equal(world.shares.put(connection('small', evil)), true)
  world.settle()
  t.ok(world.ids(evil).includes('small'), 'what fits comes in')
})

t.test('a connection that grows over the share stays as it was published', async (t) => {
  const world = new World()
  for (let i = 0; i < 3; i++) world.shares.put(connection(`e${i}`, evil, { methods: longMethods(`s${i}-`) }))
  world.shares.put(connection('x', evil))
  world.settle()
  world.shares.put(connection('x', evil, { methods: ['/a.B/C', ...longMethods('more')].slice(0, 256) }))
  world.settle()
  t.match(world.received(evil), [{}, {}, {}, { id: 'x', methods: ['/a.B/C'] }])
  world.shares.remove('e0')
  world.settle()
  t.equal(world.received(evil).find(({ id }) => id === 'x')?.methods.length, 256)
})

t.test('registrations count in the share of their agent', async (t) => {
  const world = new World()
  const meta = new Uint8Array(bounds.metaBytes)
  for (let i = 1; i <= 500; i++) world.shares.put(registration(BigInt(i), evil, { meta }))
  world.settle()
  t.ok(world.own.bytes <= bounds.agentBytes)
  t.ok(world.table.registrations(BigInt(evil) as AgentId).length > 50)
  world.shares.put(connection('large', evil, { methods: longMethods('s') }))
  world.settle()
  t.strictSame(world.ids(evil), [], 'they leave no room for it')
  t.strictSame([...world.shares.pods(BigInt(evil) as AgentId)], [])
})

t.test('too many are not kept, and may be offered again', async (t) => {
  const world = new World()
  for (let i = 0; i < shareBounds.items; i++) t.equal(world.shares.put(connection(`e${i}`, evil)), true)
  t.equal(world.shares.put(connection('more', evil)), false)
  world.shares.remove('e0')
  world.settle()
  t.equal(world.shares.put(connection('more', evil)), true)
  t.throws(() => world.shares.put(connection('', evil)), { code: 'INVALID_MESSAGE' })
})

t.test('changes without end cost the others little, and end with what is', async (t) => {
  const world = new World()
  const methods = longMethods('same')
  world.shares.put(connection('good', 1))
  let bytes = 0
  const seconds = 30
  for (let batch = 0; batch < seconds * 20; batch++) {
    for (let i = 0; i < 4; i++) world.shares.put(connection(`e${i}`, evil, { methods, pod: `pod-${batch}` }))
    world.shares.remove(`e${batch % 4}`)
    bytes += world.pass(50)
  }
  t.ok(
    bytes < shareBounds.burstBytes * 2 + seconds * shareBounds.bytesPerSecond * 1.1,
    `${bytes} bytes in ${seconds} s`,
  )
  t.ok(world.limited.some(([, reason]) => reason === 'rate'))
  world.settle()
  t.equal(world.received(evil).find(({ id }) => id === 'e1')?.pod, `pod-${seconds * 20 - 1}`)
  t.strictSame(world.ids(1), ['good'])
  t.equal(world.clock.pending, 0)
})

t.test('an agent that changes a little all the time is in four batches a second', async (t) => {
  const world = new World()
  for (let batch = 0; batch < 30 * 20; batch++) {
    world.shares.put(connection('e', evil, { pod: `pod-${batch}` }))
    world.pass(50)
  }
  const { burstBytes, bytesPerSecond, batchBytes } = shareBounds
  const most = burstBytes / batchBytes + (30 * bytesPerSecond) / batchBytes
  t.ok(world.deltas.length <= most + 1 && world.deltas.length > 30, `${world.deltas.length} in 30 s`)
})

t.test('what comes and goes between two batches costs nothing', async (t) => {
  const world = new World()
  for (let i = 0; i < 1000; i++) {
    world.shares.put(connection(`e${i}`, evil))
    world.shares.remove(`e${i}`)
  }
  t.equal(world.publish(), 0)
  t.equal(world.own.version, 1)
  t.equal(world.clock.pending, 0)
})

t.test('a leaving replica: all connections serve no method at once', async (t) => {
  const world = new World()
  const methods = longMethods('same')
  const all = Array.from({ length: 300 }, (_, i) => connection(`e${i}`, 42, { methods }))
  for (const one of all) world.shares.put(one)
  world.settle()
  for (const one of all) world.shares.put({ ...one, methods: [] })
  world.publish()
  t.strictSame(world.methods(42), [])
})

t.test('a row that is full takes first connections of others, and none of large agents', async (t) => {
  const world = new World()
  const methods = (agent: number) => Array.from({ length: 100 }, (_, i) => `/a${agent}.b${i}`.padEnd(500, 'x'))
  for (let agent = 1; agent <= 1500; agent++) {
    for (let i = 0; i < 5; i++) {
      world.shares.put(connection(`${agent}-${i}`, agent, { methods: methods(agent * 10 + i) }))
    }
  }
  world.settle()
  t.ok(world.own.bytes <= shareBounds.roomyRowBytes + bounds.agentBytes)
  t.ok(world.limited.some(([, reason]) => reason === 'row'))
  world.shares.put(connection('late', 9999))
  world.publish()
  t.strictSame(world.ids(9999), ['late'])
  const before = world.own.connections.size
  for (let agent = 1; agent <= 50; agent++) for (let i = 0; i < 5; i++) world.shares.remove(`${agent}-${i}`)
  world.settle()
  t.ok(world.own.connections.size > before - 250, 'who waited comes in once there is room')
})

t.test('pods are those that others know, or are about to', async (t) => {
  const world = new World()
  const pods = () => [...world.shares.pods(BigInt(evil) as AgentId)]
  for (let i = 0; i < 5; i++) world.shares.put(connection(`e${i}`, evil, { methods: longMethods(`s${i}-`) }))
  t.equal(pods().length, 5)
  world.settle()
  t.strictSame(pods(), ['pod-e0', 'pod-e1', 'pod-e2'])
  world.podChanges.length = 0
  world.shares.put(connection('e0', evil, { methods: [] }))
  t.strictSame(world.podChanges, [])
  world.settle()
  t.strictSame(pods(), ['pod-e0', 'pod-e1', 'pod-e2', 'pod-e3'])
  t.ok(world.podChanges.length > 0)
})

t.test('a hundred pods of an agent are published by name', async (t) => {
  const world = new World()
  const { podNames } = shareBounds
  for (let i = 0; i < podNames * 3; i++)
    world.shares.put(connection(`e${i}`, evil, { pod: `pod-${Math.floor(i / 2)}` }))
  world.settle()
  t.equal(world.received(evil).length, podNames * 3)
  t.equal(world.received(evil).filter(({ pod }) => pod !== '').length, podNames * 2)
  t.equal([...world.shares.pods(BigInt(evil) as AgentId)].length, podNames)
  world.shares.remove('e0')
  world.shares.remove('e1')
  world.shares.put(connection('late', evil, { pod: 'late' }))
  world.settle()
  t.equal(world.received(evil).find(({ id }) => id === 'late')?.pod, 'late')
})

t.test('others know all that agents within their shares serve, whatever comes and goes: 200 seeds', async (t) => {
  for (let seed = 1; seed <= 200; seed++) {
    const world = new World()
    const random = seeded(seed)
    const pick = (count: number) => Math.floor(random() * count)
    const wanted = new Map<string, RowConnection>()
    for (let step = 0; step < 80; step++) {
      const agentId = 40 + pick(2)
      const id = `${agentId}-${pick(5)}`
      if (random() < 0.65) {
        const role = random() < 0.3 ? 'standby' : 'home'
        const methods = [[], ['/a.B/C', '/a.B/D'], ['/a.B/D', '/a.B/C'], ['/a.B/E']][pick(4)] as string[]
        wanted.set(id, connection(id, agentId, { role, methods, pod: `pod-${pick(3)}` }))
        world.shares.put(wanted.get(id) as RowConnection)
      } else {
        wanted.delete(id)
        world.shares.remove(id)
      }
      if (random() < 0.5) world.pass(200)
    }
    world.settle()
    for (const agentId of [40, 41]) {
      const here = [...wanted.values()].filter((one) => one.agentId === BigInt(agentId))
      const served = (list: readonly RowConnection[]) =>
        [...new Set(list.flatMap(({ role, methods }) => methods.map((method) => `${role} ${method}`)))].sort()
      const texts = (list: readonly RowConnection[]) => list.map(({ id, pod, role }) => `${id} ${pod} ${role}`).sort()
      const received = world.received(agentId)
      if (!t.strictSame(served(received), served(here), `seed ${seed}: methods`)) return
      if (!t.strictSame(texts(received), texts(here), `seed ${seed}: connections`)) return
      if (received.flatMap(({ methods }) => methods).length !== served(here).length) t.fail(`seed ${seed}: named twice`)
    }
  }
})
