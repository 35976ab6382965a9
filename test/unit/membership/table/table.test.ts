import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { OwnRow } from '../../../../src/membership/table/own-row.ts'
import { bounds, type RowDelta, type RowItem, type RowSnapshot } from '../../../../src/membership/table/row.ts'
import { Table } from '../../../../src/membership/table/table.ts'
import { connection, delta, head, instance, registration, seeded, snapshot } from '../rows.ts'

const a = instance('a')
const agent = (id: number) => BigInt(id) as AgentId

/** Returns the content of a table in a fixed order. */
function content(table: Table) {
  const sorted = <Item extends RowItem>(items: ReadonlyMap<string, Item>) =>
    [...items.values()].sort((x, y) => (x.id < y.id ? -1 : 1))
  const rows = table.rows().map(({ instance, version, head, connections, registrations }) => ({
    instance,
    version,
    head,
    connections: sorted(connections),
    registrations: sorted(registrations),
  }))
  return rows.sort((x, y) => (x.instance < y.instance ? -1 : 1))
}

function changed(change: { connectionsOf?: bigint[]; registrationsOf?: bigint[]; members?: boolean }) {
  const { connectionsOf, registrationsOf, members = false } = change
  return { connectionsOf: new Set(connectionsOf), registrationsOf: new Set(registrationsOf), members }
}

/** True if the indices by agent agree with the rows. */
function indicesAgree(table: Table, agentIds: number[]): boolean {
  const ids = (items: readonly RowItem[]) =>
    items
      .map(({ id }) => id)
      .sort()
      .join()
  return agentIds.every((id) => {
    const isOfAgent = (item: RowItem) => item.agentId === agent(id)
    const connections = table.rows().flatMap((row) => [...row.connections.values()].filter(isOfAgent))
    const registrations = table.rows().flatMap((row) => [...row.registrations.values()].filter(isOfAgent))
    const holders = table.holders(agent(id))
    return (
      ids(connections) === ids(holders.flatMap((held) => held.connections)) &&
      ids(registrations) === ids(table.registrations(agent(id)).map(({ registration }) => registration)) &&
      holders.every((held) => held.connections.length > 0)
    )
  })
}

t.test('a row comes, changes and goes', async (t) => {
  const own = new OwnRow(a, head)
  const table = new Table()
  own.add(connection('1'))
  t.strictSame(table.put(own.snapshot()), changed({ connectionsOf: [42n], members: true }))
  own.takeDelta()
  t.equal(own.takeDelta(), undefined)
  own.add(connection('2', 43))
  own.remove('1')
  t.strictSame(table.apply(a, own.takeDelta() as RowDelta), changed({ connectionsOf: [43n, 42n] }))
  t.strictSame(table.holders(agent(42)), [])
  t.strictSame(table.holders(agent(43))[0]?.connections, [connection('2', 43)])
  own.setState('leaving')
  t.strictSame(table.apply(a, own.takeDelta() as RowDelta), changed({ members: true }))
  t.equal(table.row(a)?.head.state, 'leaving')
  const removed = table.row(a)
  t.strictSame(table.remove(a), { ...changed({ connectionsOf: [43n], members: true }), removed })
  t.equal(table.remove(a), 'unknown')
  t.strictSame(table.holders(agent(43)), [])
})

t.test('a row that is read whole names the agents of which anything has changed', async (t) => {
  const table = new Table()
  const before = [connection('1'), connection('2', 43), connection('3', 44), connection('4', 45)]
  table.put(snapshot(a, 1, { connections: before }))
  const after = [connection('1', 42, { pod: 'another' }), connection('2', 43), connection('3', 46), connection('5', 47)]
  const change = table.put(snapshot(a, 2, { connections: after }))
  t.strictSame(change, changed({ connectionsOf: [42n, 44n, 45n, 46n, 47n] }))
  const again = table.put(snapshot(a, 3, { head: { ...head, startedAt: 1 }, connections: after }))
  t.strictSame(again, changed({ members: true }))
})

t.test('registrations come, change and go apart from connections', async (t) => {
  const own = new OwnRow(a, head)
  const table = new Table()
  const registrations = (id: number) => table.registrations(agent(id)).map(({ registration }) => registration)
  own.add(connection('1'))
  own.add(registration(7n))
  own.add(registration(8n, 43))
  t.strictSame(table.put(own.snapshot()), changed({ connectionsOf: [42n], registrationsOf: [42n, 43n], members: true }))
  t.strictSame(table.registrations(agent(42)), [{ instance: a, registration: registration(7n) }])
  t.strictSame(table.holders(agent(43)), [], 'a pod that registered is no connection')
  own.takeDelta()
  own.add(registration(8n, 43, { renewed: false }))
  own.add(registration(9n))
  own.remove('pod 42 7')
  t.strictSame(table.apply(a, own.takeDelta() as RowDelta), changed({ registrationsOf: [43n, 42n] }))
  t.strictSame([registrations(42), registrations(43)], [[registration(9n)], [registration(8n, 43, { renewed: false })]])
  const renewed = { registrations: [registration(9n), registration(8n, 43)], connections: [connection('1')] }
  t.strictSame(table.put(snapshot(a, 99, renewed)), changed({ registrationsOf: [43n] }))
  const removed = table.row(a)
  const both = { connectionsOf: [42n], registrationsOf: [42n, 43n], members: true }
  t.strictSame(table.remove(a), { ...changed(both), removed })
  t.equal(removed?.registrations.size, 2, 'as it was last')
  t.strictSame([registrations(42), registrations(43)], [[], []])
})

t.test('an id is of one item, of whatever kind', async (t) => {
  const table = new Table()
  table.put(snapshot(a, 1, { connections: [connection('1')] }))
  const change = table.apply(a, delta(1, { registrations: [registration(7n, 43, { id: '1' })] }))
  t.strictSame(change, changed({ connectionsOf: [42n], registrationsOf: [43n] }))
  t.equal(table.row(a)?.connections.size, 0)
  t.strictSame(table.holders(agent(42)), [])
})

t.test('what is old, missing or unknown changes nothing', async (t) => {
  const table = new Table()
  const change = delta(4, { connections: [connection('x')] })
  t.equal(table.apply(a, change), 'unknown')
  table.put(snapshot(a, 3, { connections: [connection('1')] }))
  t.equal(table.apply(a, change), 'gap')
  t.equal(table.apply(a, { ...change, from: 1, to: 3 }), 'old')
  t.equal(table.put(snapshot(a, 3)), 'old')
  t.equal(table.row(a)?.connections.size, 1)
})

t.test('out of bounds changes nothing', async (t) => {
  const table = new Table()
  const many = Array.from({ length: bounds.itemsOfAgent - 1 }, (_, i) => connection(`c${i}`))
  const registrations = [registration(7n)]
  table.put(snapshot(a, 1, { connections: many, registrations }))
  const before = content(table)
  const change = delta(1, { removed: ['c1'], connections: [connection('x'), connection('y'), connection('c5', 43)] })
  const added = { connections: [connection('x'), connection('y')], registrations: [registration(8n)] }
  t.throws(() => table.apply(a, { ...change, ...added }), { code: 'INVALID_MESSAGE' })
  t.strictSame(content(table), before)
  t.ok(indicesAgree(table, [42, 43]))
  t.type(table.apply(a, change), 'object', 'one less leaves room')
  const tooMany = [...many, connection('more')]
  t.throws(() => table.put(snapshot(a, 9, { connections: tooMany, registrations })), { code: 'INVALID_MESSAGE' })
  for (let i = 1; i < bounds.instances; i++) table.put(snapshot(instance(`i${i}`), 1))
  t.throws(() => table.put(snapshot(instance('one more'), 1)), {
    code: 'INVALID_MESSAGE',
  })
})

t.test('own row: bounds, and nothing changes beyond them', async (t) => {
  const own = new OwnRow(a, head)
  const wrong = [
    connection('', 42),
    connection('1', 0),
    registration(7n, 42, { meta: new Uint8Array(bounds.metaBytes + 1) }),
    registration(7n, 0),
    registration(7n, 42, { id: '' }),
    connection('1', 42, { methods: Array.from({ length: bounds.methods + 1 }, (_, i) => `/a.B/${i}`) }),
    connection('1', 42, { methods: ['x'.repeat(bounds.textLength + 1)] }),
    connection('1', 42, { pod: 'x'.repeat(bounds.textLength + 1) }),
  ]
  for (const bad of wrong) t.throws(() => own.add(bad), { code: 'INVALID_MESSAGE' })
  for (let i = 0; i < bounds.itemsOfAgent; i++) own.add(connection(`c${i}`))
  t.throws(() => own.add(connection('more')), { code: 'INVALID_MESSAGE' })
  own.add(connection('c3', 42, { role: 'standby' }))
  own.remove('c3')
  own.add(connection('more'))
  t.equal(own.connections.size, bounds.itemsOfAgent)
  t.throws(() => new OwnRow(a, { ...head, name: 'kas 0' }), { code: 'INVALID_MESSAGE' })
  t.throws(() => new OwnRow(a, { ...head, publicKeyHash: 'x' }), { code: 'INVALID_MESSAGE' })
})

/** Returns a connection or a registration of one of three agents. */
function item(id: string, random: () => number, step: number): RowItem {
  const agentId = 40 + Math.floor(random() * 3)
  return random() < 0.7
    ? connection(id, agentId, { connectedAt: step })
    : registration(BigInt(step), agentId, { id, registeredAt: step })
}

/** Random steps of two owners, with everything that they publish. */
function history(seed: number) {
  const random = seeded(seed)
  const owners = [new OwnRow(a, head), new OwnRow(instance('b'), { ...head, name: 'kas-1' })]
  const events: { instance: typeof a; snapshot?: RowSnapshot; delta?: RowDelta }[] = []
  for (let step = 0; step < 60; step++) {
    const own = owners[Math.floor(random() * owners.length)] as OwnRow
    const id = String(Math.floor(random() * 8))
    const act = random()
    if (act < 0.5) own.add(item(id, random, step))
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
    if (!indicesAgree(table, [40, 41, 42])) t.fail(`seed ${seed}: indices`)
  }
})

t.test('each version has one content, whether it came by a snapshot or by deltas: 300 seeds', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const { events } = history(seed)
    const seen = new Map<string, unknown>()
    const tables = [new Table(), new Table()]
    for (const [i, event] of events.entries()) {
      // one table takes deltas, the other one takes every snapshot
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
      if (act < 0.5) own.add(item(id, random, step))
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
      if (!t.ok(delta.to > delta.from && delta.connections.length + delta.registrations.length <= 2)) return
      table.apply(a, delta)
    }
    const expected = new Table()
    expected.put(own.snapshot())
    if (!t.strictSame(content(table), content(expected), `seed ${seed}`)) return
    if (!indicesAgree(table, [40, 41, 42])) t.fail(`seed ${seed}: indices`)
  }
})

t.test('what an agent serves at a replica is put together once for all who ask, until it changes', async (t) => {
  const table = new Table()
  const connections = [
    connection('1'),
    connection('2', 42, { methods: ['/a.B/C', '/a.B/D'] }),
    connection('3', 43, { methods: [] }),
  ]
  table.put(snapshot(a, 1, { connections }))
  const held = () => table.holders(agent(42))[0]
  t.strictSame(held()?.methods, new Set(['/a.B/C', '/a.B/D']))
  t.strictSame(table.holders(agent(43))[0]?.methods, new Set())
  t.equal(held()?.methods, held()?.methods)
  t.equal(held()?.connections, held()?.connections)
  const before = held()?.connections
  table.apply(a, delta(1, { to: 3, removed: ['pod 42 8'], registrations: [registration(7n), registration(8n)] }))
  table.apply(a, delta(3, { to: 4, removed: ['pod 42 7'] }))
  t.equal(held()?.connections, before, 'a registration changes nothing of it')
  table.apply(a, delta(4, { removed: ['2'] }))
  t.strictSame(held()?.methods, new Set(['/a.B/C']))
  t.equal(before?.length, 2, 'who had asked keeps what was')
  table.apply(a, delta(5, { connections: [connection('1', 42, { methods: ['/x.Y/Z'] })] }))
  t.strictSame(held()?.methods, new Set(['/x.Y/Z']))
})

t.test('a row of a peer that one agent fills is taken: its owner has kept the shares', async (t) => {
  const table = new Table()
  const methods = Array.from({ length: bounds.methods }, (_, i) => `/${i}/`.padEnd(255, 'x'))
  const connections = Array.from({ length: bounds.itemsOfAgent }, (_, i) => connection(`c${i}`, 42, { methods }))
  t.type(table.put(snapshot(a, 1, { connections: [...connections, connection('good', 43)] })), 'object')
  t.equal(table.holders(agent(43)).length, 1)
  t.equal(table.holders(agent(42))[0]?.methods.size, bounds.methods)
})
