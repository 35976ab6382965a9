import type { Stream } from '@libp2p/interface'
import t from 'tap'
import { readRow, sendRow } from '../../../src/membership/network/row-stream.ts'
import { decodeGossip, encodeGossip } from '../../../src/membership/table/row-codec.ts'
import { connection, delta, head, instance, registration, snapshot } from './rows.ts'

/** Bytes that replicas of the oldest version write (doc/guide/upgrade.md). */
const written = {
  delta: [
    '0a0161128e02080310091a620a056b61732d3010021a0831302e302e302e3720db3f2a20abababababababababababababab',
    'abababababababababababababababababab32177773733a2f2f6b61732d302e6578616d706c652e636f6d3a05302e312e30',
    '4080909282e73348dc3f2201382208706f6420343220362a270a0131102a18072205706f642d31280132062f612e422f4332',
    '062f612e422f443881909282e7332a100a0132102a180728023882909282e73332390a1a706f642034322039323233333732',
    '303336383534373735383037102a180720ffffffffffffffff7f2a046d65746130013883909282e73332210a09706f642034',
    '33202d35102b180720fbffffffffffffffff013884909282e733',
  ].join(''),
  /** the same items in another order, and a head without a host and an address */
  mixed: [
    '0a016112de01080310091a3f0a056b61732d30100320db3f2a20abababababababababababababababababababababababab',
    'abababababababab3a05302e312e304080909282e73348dc3f32390a1a706f64203432203932323333373230333638353437',
    '3735383037102a180720ffffffffffffffff7f2a046d65746130013883909282e7332a270a0131102a18072205706f642d31',
    '280132062f612e422f4332062f612e422f443881909282e73332210a09706f64203433202d35102b180720fbffffffffffff',
    'ffff013884909282e7332a100a0132102a180728023882909282e733',
  ].join(''),
  beat: '0a01611a0308ac02',
  farewell: '0a01612200',
  row: [
    '000000480a460a016110091a3f0a056b61732d30100320db3f2a20ababababababababababababababababababababababab',
    'ababababababababab3a05302e312e304080909282e73348dc3f0000009c1299010a270a0131102a18072205706f642d3128',
    '0132062f612e422f4332062f612e422f443881909282e7330a100a0132102a180728023882909282e73312390a1a706f6420',
    '34322039323233333732303336383534373735383037102a180720ffffffffffffffff7f2a046d65746130013883909282e7',
    '3312210a09706f64203433202d35102b180720fbffffffffffffffff013884909282e733000000041a020804',
  ].join(''),
}

const a = instance('a')
const at = (ms: number) => 1_780_000_000_000 + ms
const items = {
  connections: [
    connection('1', 42, { methods: ['/a.B/C', '/a.B/D'], connectedAt: at(1) }),
    connection('2', 42, { pod: '', role: 'standby', methods: [], connectedAt: at(2) }),
  ],
  registrations: [
    registration(2n ** 63n - 1n, 42, { registeredAt: at(3) }),
    registration(-5n, 43, { meta: new Uint8Array(), renewed: false, registeredAt: at(4) }),
  ],
}
const bare = { ...head, state: 'leaving' as const }
const full = { ...head, replicaHost: '10.0.0.7', agentAddress: 'wss://kas-0.example.com' }
const change = delta(3, { to: 9, head: full, removed: ['8', 'pod 42 6'], ...items })
const row = snapshot(a, 9, { head: bare, ...items })
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

t.test('what is written has the same bytes', async (t) => {
  t.equal(hex(encodeGossip(a, { kind: 'delta', delta: change })), written.delta)
  t.equal(hex(encodeGossip(a, { kind: 'heartbeat', version: 300 })), written.beat)
  t.equal(hex(encodeGossip(a, { kind: 'farewell' })), written.farewell)
  const chunks: Uint8Array[] = []
  const stream = { send: (bytes: Uint8Array) => chunks.push(bytes) > 0, close: async () => undefined }
  await sendRow(stream as unknown as Stream, row, new AbortController().signal)
  t.equal(hex(Buffer.concat(chunks)), written.row)
})

t.test('what was written is read, in any order of the kinds', async (t) => {
  const decoded = (text: string) => decodeGossip(Buffer.from(text, 'hex'))
  t.strictSame(decoded(written.delta), { instance: a, message: { kind: 'delta', delta: change } })
  const mixed = { ...change, head: bare, removed: [] }
  t.strictSame(decoded(written.mixed), { instance: a, message: { kind: 'delta', delta: mixed } })
  t.strictSame(decoded(written.beat), { instance: a, message: { kind: 'heartbeat', version: 300 } })
  t.strictSame(decoded(written.farewell), { instance: a, message: { kind: 'farewell' } })
  async function* chunks() {
    yield { subarray: () => Buffer.from(written.row, 'hex') }
  }
  t.strictSame(await readRow(chunks(), a), row)
})
