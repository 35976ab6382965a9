import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Stream } from '@libp2p/interface'
import { noise } from '@libp2p/noise'
import t, { type Test } from 'tap'
import type { AgentId } from '../../src/call/call.ts'
import { inboundBounds } from '../../src/membership/network/inbound-limit.ts'
import { type noiseOf, protocolOf } from '../../src/membership/network/noise.ts'
import { sendRow } from '../../src/membership/network/row-stream.ts'
import { maxMessageBytes } from '../../src/membership/protocol/announcer.ts'
import { floodMessagesPerCheck } from '../../src/membership/protocol/attendance.ts'
import { encodeGossip } from '../../src/membership/table/row-codec.ts'
import {
  DeltaSchema,
  HeadSchema,
  NewsSchema,
  type Role,
  RowEndSchema,
  RowItemsSchema,
  RowPartSchema,
  RowStartSchema,
  type State,
} from '../../src/proto/gen/replica_pb.ts'
import { eventually } from '../support/eventually.ts'
import { secret } from '../support/membership.ts'
import { connection, delta, head, instance, registration, snapshot } from '../unit/membership/rows.ts'
import { createReplica, knowsAll, type Replica, startReplica, startReplicas } from './replicas.ts'
import { startRogue } from './rogue.ts'

const agent = 42n as AgentId
const other = Buffer.alloc(32, 9)

t.test('a replica with another secret learns nothing, and is refused in milliseconds', async (t) => {
  const a = await startReplica(t, 'kas-0')
  // long enough that no handshake reaches its limit
  const b = await startReplica(t, 'kas-1', { secret: other, listed: [a.address], timers: { handshakeMs: 60_000 } })
  t.equal(b.membership.rows().length, 1)
  t.equal(a.membership.rows().length, 1)
  await eventually(() => {
    if (b.lines.length === 0) throw new Error('not told')
  })
  t.match(b.lines, [{ level: 'warn', net_address: a.address, error: { type: 'EncryptionFailedError' } }])
  t.notOk(JSON.stringify([a.lines, b.lines]).includes(secret.toString('hex')))
  await eventually(async () => {
    if ((await a.metric('kas_gossip_refused_total', { reason: 'handshake' })) === 0) throw new Error('not counted')
  })
})

t.test('one that knows the name of the protocol but not the secret fails the handshake', async (t) => {
  const a = await startReplica(t, 'kas-0', { timers: { handshakeMs: 60_000 } })
  const prologues = [undefined, Buffer.alloc(32, 1)]
  for (const prologueBytes of prologues) {
    const encrypters: ReturnType<typeof noiseOf> = [
      (components) =>
        Object.assign(
          noise(prologueBytes && { prologueBytes })(components) as ReturnType<ReturnType<typeof noiseOf>[0]>,
          {
            protocol: protocolOf(secret),
          },
        ),
    ]
    const stranger = await startRogue(t, { encrypters })
    await t.rejects(stranger.join(a.address), { name: 'EncryptionFailedError' })
  }
  t.equal(a.membership.rows().length, 1)
  t.equal(await a.metric('kas_members'), 1)
})

t.test('while the secret is changed, each that has one in common gets through', async (t) => {
  const previous = await startReplica(t, 'kas-0')
  const both = await startReplica(t, 'kas-1', { secret: other, previousSecret: secret, listed: [previous.address] })
  const next = await startReplica(t, 'kas-2', { secret: other, listed: [previous.address, both.address] })
  await eventually(() => knowsAll(previous, [both]), previous.membership)
  await eventually(() => knowsAll(both, [previous, next]), both.membership)
  await eventually(() => knowsAll(next, [both]), next.membership)
  t.equal(previous.membership.row(next.membership.instance), undefined)
  t.equal(next.membership.row(previous.membership.instance), undefined)
})

t.test('a message about another row than the own is refused', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  const rogue = await startRogue(t)
  await rogue.join(a.address)
  const forged = delta(1, { to: 1000, connections: [connection('forged')] })
  await rogue.publish(encodeGossip(b.membership.instance, { kind: 'delta', delta: forged }))
  await rogue.publish(encodeGossip(b.membership.instance, { kind: 'farewell' }))
  await refusedAt(a, 'author', 2)
  t.ok(a.membership.row(b.membership.instance))
  t.strictSame(a.membership.holders(agent), [])
  t.equal(await b.metric('kas_gossip_refused_total', { reason: 'author' }), 0, 'and not passed on')
})

t.test('what is too large or no message is refused, and costs only its author', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  const rogue = await startRogue(t)
  await rogue.join(a.address)
  const meta = new Uint8Array(4096)
  const registrations = Array.from({ length: 100 }, (_, i) => registration(BigInt(i), 42, { meta }))
  const large = encodeGossip(rogue.instance, { kind: 'delta', delta: delta(1, { registrations }) })
  t.ok(large.length > maxMessageBytes)
  await rogue.publish(large)
  await rogue.publish(Buffer.from('garbage'))
  await refusedAt(a, 'oversized', 1)
  await refusedAt(a, 'malformed', 1)
  await rogue.publish(new Uint8Array(5 * 1024 * 1024)) // ends its stream
  a.membership.addConnection(connection('1'))
  await eventually(() => b.membership.holders(agent).length === 1, b.membership)
  t.ok(a.membership.row(b.membership.instance))
})

t.test('a row that never ends, is cut short or is of another is refused', async (t) => {
  const [a, b] = (await startReplicas(t, 2)) as [Replica, Replica]
  const row = { head: { ...head, name: 'rogue' }, connections: [connection('1')] }
  const part = Buffer.alloc(4 + 1024 * 1024)
  part.writeUInt32BE(1024 * 1024)
  const rows: ((stream: Stream) => void | Promise<void>)[] = [
    (stream) => sendRow(stream, snapshot(a.membership.instance, 3, row), AbortSignal.timeout(10_000)),
    (stream) => void stream.send(part),
    (stream) => stream.close(),
    (stream) => sendRow(stream, snapshot(instance('x'), 3, row), AbortSignal.timeout(10_000)),
  ]
  for (const serveRow of rows) {
    const before = await a.metric('kas_gossip_refused_total', { reason: 'row' })
    const rogue = await startRogue(t, { serveRow })
    await rogue.join(a.address)
    await refusedAt(a, 'row', before + 1)
    t.equal(a.membership.row(rogue.instance), undefined)
    await rogue.node.stop()
  }
  t.ok(knowsAll(a, [a, b]))
})

t.test('a flood gets its author thrown out, and nobody else', async (t) => {
  const [a, b] = (await startReplicas(t, 2, { timers: { silenceMs: 600_000 } })) as [Replica, Replica]
  const rogue = await startRogue(t)
  await rogue.join(a.address)
  const heartbeat = encodeGossip(rogue.instance, { kind: 'heartbeat', version: 1 })
  const gone = new Promise((resolve) => rogue.node.addEventListener('peer:disconnect', resolve, { once: true }))
  for (let i = 0; i < floodMessagesPerCheck + 100; i++) await rogue.publish(heartbeat)
  await gone
  await rogue.dial(a.address).catch(() => undefined)
  await refusedAt(a, 'banned', 1)
  t.ok((await a.metric('kas_gossip_refused_total', { reason: 'rate' })) > 1000)
  t.ok((await b.metric('kas_gossip_received_total')) < floodMessagesPerCheck / 2, 'nor is it passed on')
  a.membership.addConnection(connection('1'))
  await eventually(() => b.membership.holders(agent).length === 1, b.membership)
})

t.test('a replica of a later version: fields, news, states and parts that this one does not know', async (t) => {
  const a = await startReplica(t, 'kas-0')
  const unknownField = Buffer.from([0xfa, 0x01, 0x01, 0x41]) // field 31
  const rogue = await startRogue(t, {
    async serveRow(stream) {
      const start = create(RowPartSchema, {
        part: {
          case: 'start',
          value: create(RowStartSchema, { instance: rogue.instance, version: 1n, head: create(HeadSchema, laterHead) }),
        },
      })
      const items = create(RowPartSchema, {
        part: {
          case: 'items',
          value: create(RowItemsSchema, { connections: [{ id: '1', agentId: 42n, role: 9 as Role }] }),
        },
      })
      const end = create(RowPartSchema, {
        part: { case: 'end', value: create(RowEndSchema, { items: 1 }) },
      })
      for (const part of [start, create(RowPartSchema), items, end]) {
        const bytes = Buffer.concat([toBinary(RowPartSchema, part), unknownField])
        stream.send(Buffer.concat([Buffer.from([0, 0, bytes.length >> 8, bytes.length & 255]), bytes]))
      }
      await stream.close()
    },
  })
  await rogue.join(a.address)
  await eventually(() => a.membership.holders(agent).length === 1, a.membership)
  t.match(a.membership.row(rogue.instance), { head: { name: 'kas-9', state: 'joining', gossipPort: 0 }, version: 1 })
  const news = create(NewsSchema, {
    instance: rogue.instance,
    news: { case: 'delta', value: create(DeltaSchema, { from: 1n, to: 2n, head: { ...laterHead, state: 2 } }) },
  })
  await rogue.publish(Buffer.concat([toBinary(NewsSchema, news), unknownField]))
  await eventually(() => a.membership.row(rogue.instance)?.head.state === 'serving', a.membership)
  t.equal(await a.metric('kas_gossip_refused_total'), 0)
})

/** A head as an earlier version fills it, with a state that only a later version has. */
const laterHead = { name: 'kas-9', state: 7 as State, replicaPort: 8155, publicKeyHash: Buffer.alloc(32, 1) }

t.test('120 silent sockets of a stranger keep no member out', async (t) => {
  const [a] = (await startReplicas(t, 1, { timers: { handshakeMs: 60_000 } })) as [Replica]
  a.source.list([a.address])
  const silent = await openSockets(t, a.address, 120, '127.0.0.2')
  await refusedAt(a, 'pending', 120 - inboundBounds.pendingPerAddress)
  t.ok(silent.length === 120)
  const b = await startReplica(t, 'kas-1', { listed: [a.address] })
  t.ok(b.membership.row(a.membership.instance), 'it has joined')
})

t.test('nor do 120 silent sockets from a listed address', async (t) => {
  const [a] = (await startReplicas(t, 1, { timers: { handshakeMs: 60_000 } })) as [Replica]
  a.source.list([a.address])
  await openSockets(t, a.address, 120, '127.0.0.1')
  const b = await startReplica(t, 'kas-1', { listed: [a.address] })
  t.ok(b.membership.row(a.membership.instance))
  t.equal(await a.metric('kas_gossip_refused_total', { reason: 'pending' }), 0)
})

t.test('a silent socket is closed when the time for the handshake is over', async (t) => {
  const a = createReplica(t, 'kas-0', { timers: { handshakeMs: 100 } })
  await a.membership.start()
  const [socket] = (await openSockets(t, `127.0.0.1:${a.membership.port}`, 1, '127.0.0.2')) as [Socket]
  await new Promise<void>((resolve) => (socket.closed ? resolve() : socket.once('close', resolve)))
  t.equal(await a.metric('kas_gossip_refused_total', { reason: 'handshake' }), 1)
})

/** Bytes that would keep the event loop busy for seconds if they were parsed. */
const floods: Readonly<Record<string, Buffer>> = {
  'proposals that nobody takes': Buffer.from(`\x13/multistream/1.0.0\n${'\x03ab\n'.repeat(20_000)}`),
  'questions for protocols': Buffer.from(`\x13/multistream/1.0.0\n${'\x03ls\n'.repeat(20_000)}`),
  'a long name': Buffer.from(`\x13/multistream/1.0.0\n\xff\x07${'a'.repeat(1022)}\n`, 'latin1'),
  nothing: Buffer.alloc(64 * 1024),
}

for (const [name, bytes] of Object.entries(floods)) {
  t.test(`a stranger that sends ${name} is cut before libp2p has it`, async (t) => {
    const a = createReplica(t, 'kas-0', { timers: { handshakeMs: 60_000 } })
    await a.membership.start()
    const [socket] = (await openSockets(t, `127.0.0.1:${a.membership.port}`, 1, '127.0.0.2')) as [Socket]
    const closed = new Promise<void>((resolve) => void socket.once('close', () => resolve()))
    let answered = 0
    socket.on('data', ({ length }: Buffer) => {
      answered += length
    })
    socket.write(bytes)
    await closed
    t.ok(answered < 200, `${answered} bytes of answers`)
    t.equal(await a.metric('kas_gossip_refused_total', { reason: 'handshake' }), 1)
  })
}

/** Opens connections that send nothing; they may be refused. */
async function openSockets(t: Test, address: string, count: number, localAddress: string): Promise<Socket[]> {
  const [host = '', port] = address.split(':')
  const sockets = Array.from({ length: count }, () => connect({ host, port: Number(port), localAddress }))
  t.teardown(() => sockets.forEach((socket) => void socket.destroy()))
  for (const socket of sockets) socket.on('error', () => undefined).resume()
  await Promise.all(sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])))
  return sockets
}

async function refusedAt(replica: Replica, reason: string, count: number): Promise<void> {
  await eventually(async () => {
    const refused = await replica.metric('kas_gossip_refused_total', { reason })
    if (refused < count) throw new Error(`${refused} of ${count} refused as ${reason}`)
  })
}
