import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { OwnRow } from '../../../../src/membership/table/own-row.ts'
import { bounds, type RowDelta, type RowSnapshot } from '../../../../src/membership/table/row.ts'
import { Table } from '../../../../src/membership/table/table.ts'
import { entry, head, instance, seeded } from '../rows.ts'

const a = instance('a')
const agent = (id: number) => BigInt(id) as AgentId

/** What a table says, in an order of its own. */
function content(table: Table) {
  const rows = table.rows().map(({ instance, version, head, connections }) => ({
    instance,
    version,
    head,
    connections: [...connections.values()].sort((x, y) => (x.id < y.id ? -1 : 1)),
  }))
  return rows.sort((x, y) => (x.instance < y.instance ? -1 : 1))
}

/** The holders index says the same as the rows. */
function holdersAgree(table: Table, agentIds: number[]): boolean {
  return agentIds.every((id) => {
    const byRows = table.rows().flatMap((row) => [...row.connections.values()].filter((e) => e.agentId === agent(id)))
    const byIndex = table.holders(agent(id)).flatMap(({ connections }) => connections)
    const ids = (list: typeof byRows) =>
      list
        .map((e) => e.id)
        .sort()
        .join()
    return ids(byRows) === ids(byIndex) && table.holders(agent(id)).every(({ connections }) => connections.length > 0)
  })
}

t.test('a row comes, changes and goes', async (t) => {
  const own = new OwnRow(a, head)
  const table = new Table()
  own.add(entry('1'))
  t.strictSame(table.put(own.snapshot()), { agentIds: new Set([42n]), members: true })
  own.takeDelta()
  t.equal(own.takeDelta(), undefined)
  own.add(entry('2', 43))
  own.remove('1')
  const delta = own.takeDelta() as RowDelta
  t.strictSame(table.apply(a, delta), { agentIds: new Set([42n, 43n]), members: false })
  t.strictSame(table.holders(agent(42)), [])
  t.strictSame(table.holders(agent(43))[0]?.connections, [entry('2', 43)])
  own.setState('leaving')
  t.strictSame(table.apply(a, own.takeDelta() as RowDelta), { agentIds: new Set(), members: true })
  t.equal(table.row(a)?.head.state, 'leaving')
  t.strictSame(table.remove(a), { agentIds: new Set([43n]), members: true })
  t.equal(table.remove(a), 'unknown')
  t.strictSame(table.holders(agent(43)), [])
})

t.test('a row that is read whole names the agents of which anything has changed', async (t) => {
  const table = new Table()
  const before = [entry('1'), entry('2', 43), entry('3', 44), entry('4', 45)]
  table.put({ instance: a, version: 1, head, connections: before })
  const after = [entry('1', 42, { pod: 'another' }), entry('2', 43), entry('3', 46), entry('5', 47)]
  const change = table.put({ instance: a, version: 2, head, connections: after })
  t.strictSame(change, { agentIds: new Set([42n, 44n, 45n, 46n, 47n]), members: false })
  const again = table.put({ instance: a, version: 3, head: { ...head, startedAt: 1 }, connections: after })
  t.strictSame(again, { agentIds: new Set(), members: true })
})

t.test('what is old, missing or unknown changes nothing', async (t) => {
  const table = new Table()
  const delta: RowDelta = { from: 4, to: 5, removed: [], added: [entry('x')] }
  t.equal(table.apply(a, delta), 'unknown')
  table.put({ instance: a, version: 3, head, connections: [entry('1')] })
  t.equal(table.apply(a, delta), 'gap')
  t.equal(table.apply(a, { ...delta, from: 1, to: 3 }), 'old')
  t.equal(table.put({ instance: a, version: 3, head, connections: [] }), 'old')
  t.equal(table.row(a)?.connections.size, 1)
})

t.test('out of bounds changes nothing', async (t) => {
  const table = new Table()
  const many = Array.from({ length: bounds.connectionsOfAgent }, (_, i) => entry(`c${i}`))
  table.put({ instance: a, version: 1, head, connections: many })
  const before = content(table)
  const delta = { from: 1, to: 2, removed: ['c1'], added: [entry('x'), entry('y'), entry('c5', 43)] }
  t.throws(() => table.apply(a, { ...delta, added: [entry('x'), entry('y'), entry('z')] }), { code: 'INVALID_MESSAGE' })
  t.strictSame(content(table), before)
  t.ok(holdersAgree(table, [42, 43]))
  t.type(table.apply(a, delta), 'object', 'one less leaves room')
  const tooMany = [...many, entry('more')]
  t.throws(() => table.put({ instance: a, version: 9, head, connections: tooMany }), { code: 'INVALID_MESSAGE' })
  for (let i = 1; i < bounds.instances; i++)
    table.put({ instance: instance(`i${i}`), version: 1, head, connections: [] })
  t.throws(() => table.put({ instance: instance('one more'), version: 1, head, connections: [] }), {
    code: 'INVALID_MESSAGE',
  })
})

t.test('own row: bounds, and nothing changes beyond them', async (t) => {
  const own = new OwnRow(a, head)
  const wrong = [
    entry('', 42),
    entry('1', 0),
    entry('1', 42, { agentMeta: new Uint8Array(bounds.agentMetaBytes + 1) }),
    entry('1', 42, { methods: Array.from({ length: bounds.methods + 1 }, (_, i) => `/a.B/${i}`) }),
    entry('1', 42, { methods: ['x'.repeat(bounds.textLength + 1)] }),
    entry('1', 42, { pod: 'x'.repeat(bounds.textLength + 1) }),
  ]
  for (const bad of wrong) t.throws(() => own.add(bad), { code: 'INVALID_MESSAGE' })
  for (let i = 0; i < bounds.connectionsOfAgent; i++) own.add(entry(`c${i}`))
  t.throws(() => own.add(entry('more')), { code: 'INVALID_MESSAGE' })
  own.add(entry('c3', 42, { role: 'standby' }))
  own.remove('c3')
  own.add(entry('more'))
  t.equal(own.connections.size, bounds.connectionsOfAgent)
  t.throws(() => new OwnRow(a, { ...head, name: 'kas 0' }), { code: 'INVALID_MESSAGE' })
  t.throws(() => new OwnRow(a, { ...head, publicKeyHash: 'x' }), { code: 'INVALID_MESSAGE' })
})

/** Random steps of two owners, with all that was ever published. */
function history(seed: number) {
  const random = seeded(seed)
  const owners = [new OwnRow(a, head), new OwnRow(instance('b'), { ...head, name: 'kas-1' })]
  const events: { instance: typeof a; snapshot?: RowSnapshot; delta?: RowDelta }[] = []
  for (let step = 0; step < 60; step++) {
    const own = owners[Math.floor(random() * owners.length)] as OwnRow
    const id = String(Math.floor(random() * 8))
    const act = random()
    if (act < 0.5) own.add(entry(id, 40 + Math.floor(random() * 3), { connectedAt: step }))
    else if (act < 0.8) own.remove(id)
    else if (act < 0.85) own.setState(random() < 0.5 ? 'leaving' : 'serving')
    if (random() < 0.5) {
      const delta = own.takeDelta()
      if (delta) events.push({ instance: own.instance, delta })
    }
    if (random() < 0.2) events.push({ instance: own.instance, snapshot: own.snapshot() })
  }
  for (const own of owners) events.push({ instance: own.instance, snapshot: own.snapshot() })
  return { events, random, owners }
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  const out = [...list]
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[out[i], out[j]] = [out[j] as T, out[i] as T]
  }
  return out
}

t.test('any order, any repetition of snapshots and deltas ends in the same table: 300 seeds', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const { events, random, owners } = history(seed)
    const table = new Table()
    const versions = new Map<string, number>()
    for (const event of [...shuffled(events, random), ...shuffled(events, random)]) {
      if (event.snapshot) table.put(event.snapshot)
      if (event.delta) table.apply(event.instance, event.delta)
      const version = table.row(event.instance)?.version ?? 0
      if (version < (versions.get(event.instance) ?? 0)) t.fail(`seed ${seed}: a version went back`)
      versions.set(event.instance, version)
    }
    const expected = new Table()
    for (const own of owners) expected.put(own.snapshot())
    if (!t.strictSame(content(table), content(expected), `seed ${seed}`)) return
    if (!holdersAgree(table, [40, 41, 42])) t.fail(`seed ${seed}: holders`)
  }
})

t.test('each version has one content, whether it came by a snapshot or by deltas: 300 seeds', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const { events } = history(seed)
    const seen = new Map<string, unknown>()
    const tables = [new Table(), new Table()]
    for (const [i, event] of events.entries()) {
      // one lives on deltas, the other takes every snapshot
      for (const [n, table] of tables.entries()) {
        if (event.snapshot && (n === 1 || !table.row(event.instance))) table.put(event.snapshot)
        if (event.delta) table.apply(event.instance, event.delta)
        const row = content(table).find((row) => row.instance === event.instance)
        if (!row) continue
        const key = `${row.instance} ${row.version}`
        if (!seen.has(key)) seen.set(key, row)
        else if (!t.strictSame(row, seen.get(key), `seed ${seed}, event ${i}, ${key}`)) return
      }
    }
  }
})

t.test('deltas in parts, with a row read anywhere in between, end in the same row: 300 seeds', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed)
    const own = new OwnRow(a, head)
    const table = new Table()
    table.put(own.snapshot())
    for (let step = 0; step < 60; step++) {
      const id = String(Math.floor(random() * 8))
      const act = random()
      if (act < 0.5) own.add(entry(id, 40 + Math.floor(random() * 3), { connectedAt: step }))
      else if (act < 0.7) own.remove(id)
      else if (act < 0.75) own.setState(random() < 0.5 ? 'leaving' : 'serving')
      else if (act < 0.85) table.put(own.snapshot())
      else {
        const delta = own.takeDelta(250)
        if (delta && typeof table.apply(a, delta) === 'string') t.ok(delta.to <= (table.row(a)?.version ?? 0))
      }
    }
    while (own.changed) {
      const delta = own.takeDelta(250) as RowDelta
      if (!t.ok(delta.to > delta.from && delta.added.length <= 2)) return
      table.apply(a, delta)
    }
    const expected = new Table()
    expected.put(own.snapshot())
    if (!t.strictSame(content(table), content(expected), `seed ${seed}`)) return
    if (!holdersAgree(table, [40, 41, 42])) t.fail(`seed ${seed}: holders`)
  }
})

t.test('what an agent serves at a replica is put together once for all who ask, until it changes', async (t) => {
  const table = new Table()
  const connections = [entry('1'), entry('2', 42, { methods: ['/a.B/C', '/a.B/D'] }), entry('3', 43, { methods: [] })]
  table.put({ instance: a, version: 1, head, connections })
  const held = () => table.holders(agent(42))[0]
  t.strictSame(held()?.methods, new Set(['/a.B/C', '/a.B/D']))
  t.strictSame(table.holders(agent(43))[0]?.methods, new Set())
  t.equal(held()?.methods, held()?.methods)
  t.equal(held()?.connections, held()?.connections)
  const before = held()?.connections
  table.apply(a, { from: 1, to: 2, removed: ['2'], added: [] })
  t.strictSame(held()?.methods, new Set(['/a.B/C']))
  t.equal(before?.length, 2, 'who had asked keeps what was')
  table.apply(a, { from: 2, to: 3, removed: [], added: [entry('1', 42, { methods: ['/x.Y/Z'] })] })
  t.strictSame(held()?.methods, new Set(['/x.Y/Z']))
})

t.test('a row of an older version that one agent fills is taken', async (t) => {
  const table = new Table()
  const methods = Array.from({ length: bounds.methods }, (_, i) => `/${i}/`.padEnd(255, 'x'))
  const connections = Array.from({ length: bounds.connectionsOfAgent }, (_, i) => entry(`c${i}`, 42, { methods }))
  const snapshot = { instance: a, version: 1, head, connections: [...connections, entry('good', 43)] }
  t.type(table.put(snapshot), 'object')
  t.equal(table.holders(agent(43)).length, 1)
  t.equal(table.holders(agent(42))[0]?.methods.size, bounds.methods)
})
