import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { stateEndpoint, statesOfPeer } from '../../../../../src/kas/modules/gitops/state-endpoint.ts'
import { States, type StatesOptions } from '../../../../../src/kas/modules/gitops/states.ts'
import { pushStates } from '../../../../../src/kas/modules/gitops/states-receiver.ts'
import type { OwnRequest } from '../../../../../src/kas/own-endpoint.ts'
import { noPeers } from '../../../../../src/kas/peers/peers.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { Phase, SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { Gitops, StatesRequestSchema, StatesResponseSchema } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { methodPath } from '../../../../../src/proto/unary.ts'
import { FakeAgentCall, someAgent } from '../../../../support/fake-agent-call.ts'
import { bareDirectory, unpolled } from '../../../../support/fake-host.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

/** No configuration is followed, and a pod of the agent is connected to this replica. */
const noConfig = { followed: () => undefined }
const rest = {
  commits: { of: () => [] },
  agentConfig: noConfig,
  serves: () => true,
  away: () => undefined,
  ...unpolled,
  directory: bareDirectory,
}

const [a, b] = [1n, 2n] as AgentId[] as [AgentId, AgentId]
const hour = 3_600_000
const bytes = (length: number) => new Uint8Array(length)
const whole = (length: number, cut = length) => ({ whole: bytes(length), cut: () => bytes(cut) })
const encoded = (init: MessageInitShape<typeof SourceStateSchema>) =>
  toBinary(SourceStateSchema, create(SourceStateSchema, init))

function start(options: StatesOptions = {}) {
  const clock = new ManualClock()
  return { clock, states: new States(clock, options) }
}

t.test('what was told last of each source, an hour longer than the stream that told it', async (t) => {
  const { clock, states } = start()
  const one = states.open(a)
  t.ok(one.put('x', whole(1)))
  clock.advance(10)
  const two = states.open(a)
  t.ok(two.put('x', whole(2)))
  t.ok(one.put('y', whole(3)))
  one.end()
  one.end()
  t.match(states.of(a).get('x'), { bytes: bytes(2), live: true })
  t.match(states.of(a).get('y'), { bytes: bytes(3), live: false })
  clock.advance(hour - 1)
  t.equal(states.of(a).size, 2)
  clock.advance(1)
  t.strictSame([...states.of(a).keys()], ['x'], 'what an open stream has told stays')
  two.end()
  clock.advance(hour - 1)
  t.equal(states.of(a).size, 1)
  const back = states.open(a)
  t.ok(back.put('x', whole(4)))
  clock.advance(hour)
  t.equal(states.of(a).size, 1, 'it came back')
  back.end()
  clock.advance(hour)
  t.strictSame([states.of(a).size, states.agents, states.bytes], [0, 0, 0])
})

t.test('bounds: sources and bytes of an agent, bytes of all', async (t) => {
  const { states, clock } = start({ maxSources: 2, maxAgentBytes: 4000, maxBytes: 4500 })
  const one = states.open(a)
  t.ok(one.put('x', whole(700)))
  t.ok(one.put('y', whole(1500, 100)))
  t.equal(states.of(a).get('y')?.bytes.length, 100, 'half of the bytes are for whole states')
  t.notOk(one.put('y', whole(3500)), 'too many bytes')
  t.ok(one.put('x', whole(600)))
  t.ok(one.put('z', whole(1)), 'one source too many')
  t.strictSame([...states.of(a).keys()], ['x', 'z'], 'who was told of longest ago makes room')
  const other = states.open(a)
  t.ok(other.put('x', whole(600)))
  one.end()
  t.ok(other.put('w', whole(1)))
  t.strictSame([...states.of(a).keys()], ['x', 'w'], 'before all what nobody tells any more')
  const before = states.bytes
  const two = states.open(b)
  t.ok(two.put('x', whole(3400)))
  t.ok(before + 3400 > 4500)
  t.strictSame([states.of(a).size, states.of(b).size], [0, 1], 'who told longest ago makes room')
  t.ok(states.bytes <= 4500)
  other.end()
  two.end()
  clock.advance(hour)
  t.strictSame([states.agents, states.bytes], [0, 0])
})

t.test('what an agent tells too much of is kept without names of objects', async (t) => {
  const { states, clock } = start({ maxAgentBytes: 4000 })
  const trouble = Array.from({ length: 50 }, () => ({ text: 'x'.repeat(100) }))
  const state = encoded({ source: '42-7', phase: Phase.FAILING, trouble, counts: { failed: 50 } })
  const serve = pushStates({ states, clock }, { pollMs: 1000 })
  t.equal(await new FakeAgentCall({ messages: [state] }).servedBy(serve), 'OK')
  const kept = fromBinary(SourceStateSchema, states.of(someAgent.id).get('42-7')?.bytes ?? bytes(0))
  t.match(kept, { phase: Phase.FAILING, trouble: [], counts: { failed: 50 } })
  for (const { fieldKind, localName } of SourceStateSchema.fields) {
    if (fieldKind !== 'list') continue
    const isOfText = localName === 'environment' || localName === 'unwatched'
    const long = encoded({
      source: '42-7',
      trouble,
      [localName]: Array(50).fill(isOfText ? 'x'.repeat(100) : trouble[0]),
    })
    t.equal(await new FakeAgentCall({ messages: [long] }).servedBy(serve), 'OK')
    const cut = fromBinary(SourceStateSchema, states.of(someAgent.id).get('42-7')?.bytes ?? bytes(0))
    t.match(cut, { isCut: true, [localName]: [] }, localName)
  }
})

t.test('an agent tells, until it retires or its token is void', async (t) => {
  const { states, clock } = start()
  const serve = pushStates({ states, clock }, { pollMs: 1000 })
  const state = encoded({ source: '42-7', project: 'a/b', phase: Phase.SYNCED })
  const settle = async () => {
    for (let i = 0; i < 5; i++) await new Promise(setImmediate)
  }
  const open = new Promise<never>(() => undefined)
  async function* telling() {
    yield state
    await open
  }
  t.equal(await new FakeAgentCall({ messages: [state] }).servedBy(serve), 'OK', 'it has told all')
  for (const end of ['retire', 'void', 'change'] as const) {
    const call = new FakeAgentCall({ messages: telling() })
    const ended = call.servedBy(serve)
    await settle()
    t.match(states.of(someAgent.id).get('42-7'), { live: true })
    if (end === 'retire') call.retire()
    else call.invalid = new KasError({ code: 'UNAUTHENTICATED' })
    if (end === 'void') clock.advance(1000)
    if (end === 'change') call.directoryChanged()
    t.match(await ended, end === 'retire' ? 'OK' : { code: 'UNAUTHENTICATED' }, end)
    t.match(states.of(someAgent.id).get('42-7'), { live: false })
    t.equal(call.directoryListeners, 0)
  }
  const many = Array.from({ length: 101 }, () => ({}))
  for (const wrong of [
    Buffer.from([0xff]),
    encoded({ source: '' }),
    encoded({ source: 'x'.repeat(129) }),
    encoded({ source: 'x', trouble: many }),
    encoded({ source: 'x', planned: many }),
    encoded({ source: 'x', environment: Array(101).fill('e') }),
    encoded({ source: 'x', unwatched: Array(101).fill('e') }),
    encoded({ source: 'x', leftToOthers: many }),
  ]) {
    const refusal = await new FakeAgentCall({ messages: [wrong] }).servedBy(serve)
    t.match(refusal, { code: 'INVALID_MESSAGE' })
  }
})

t.test('any replica shows what was told last at any of them', async (t) => {
  const [own, peer] = [start(), start()]
  const asked = { agentId: a } as OwnRequest
  const told = (phase: Phase, commit: string) => {
    const state = encoded({ source: 's', project: 'a/b', phase, commit })
    return { whole: state, cut: () => state }
  }
  const leaving = peer.states.open(a)
  leaving.put('s', told(Phase.APPLYING, 'old'))
  const serve = statesOfPeer({ ...peer, ...rest }).get(methodPath(Gitops.method.states))
  const peers = {
    ...noPeers,
    broadcast: async (_: unknown, request: object) => {
      const message = toBinary(StatesRequestSchema, create(StatesRequestSchema, request))
      const answer = fromBinary(StatesResponseSchema, (await serve?.(message)) ?? new Uint8Array())
      return new Map([[{ instance: 'i', name: 'kas-1' }, answer]])
    },
  } as unknown as typeof noPeers
  const endpoint = stateEndpoint({ ...own, ...rest, peers })
  const show = async () => JSON.parse(String(Buffer.from((await endpoint.serve(asked)).body))) as { sources: object[] }
  t.match(await show(), { sources: [{ source: 's', phase: 'APPLYING', commit: 'old', age_ms: 0, stale: false }] })
  peer.clock.advance(500)
  const stream = own.states.open(a)
  stream.put('s', told(Phase.SYNCED, 'new'))
  t.match(await show(), { sources: [{ source: 's', phase: 'SYNCED', commit: 'new' }] })
  own.clock.advance(100)
  leaving.put('s', told(Phase.APPLYING, 'late'))
  leaving.end()
  t.match(await show(), { sources: [{ commit: 'new' }] }, 'what an open stream has told goes before what is younger')
  stream.end()
  own.clock.advance(100)
  peer.clock.advance(1000)
  const { sources } = await show()
  t.match(sources, [{ commit: 'new', age_ms: 200, stale: true }])
  t.equal(sources.length, 1)
})

t.test('a source that is gone is shown no longer, whichever replica was told of it', async (t) => {
  const [own, peer] = [start({ maxSources: 2 }), start()]
  const serve = pushStates({ states: peer.states, clock: peer.clock }, { pollMs: 1000 })
  const tellPeer = (state: Uint8Array) => new FakeAgentCall({ messages: [state] }).servedBy(serve)
  await tellPeer(encoded({ source: 'old', phase: Phase.SYNCED }))
  await tellPeer(encoded({ source: 'gone', phase: Phase.SYNCED }))
  const answer = statesOfPeer({ ...peer, ...rest }).get(methodPath(Gitops.method.states))
  const peers = {
    ...noPeers,
    broadcast: async (_: unknown, { agentId }: { agentId: AgentId }) => {
      const asked = toBinary(StatesRequestSchema, create(StatesRequestSchema, { agentId }))
      const told = fromBinary(StatesResponseSchema, (await answer?.(asked)) ?? new Uint8Array())
      return new Map([[{ instance: 'i', name: 'kas-1' }, told]])
    },
  } as unknown as typeof noPeers
  const show = async () => {
    const { body } = await stateEndpoint({ ...own, ...rest, peers }).serve({ agentId: someAgent.id } as OwnRequest)
    const { sources } = JSON.parse(String(Buffer.from(body))) as { sources: { source: string; removed?: unknown }[] }
    t.ok(sources.every((each) => !('removed' in each)))
    return sources.map(({ source }) => source).sort()
  }
  t.strictSame(await show(), ['gone', 'old'])
  const stream = own.states.open(someAgent.id)
  const removed = (source: string) => {
    const state = encoded({ source, removed: true })
    return { whole: state, cut: () => state, isRemoved: true }
  }
  stream.put('gone', removed('gone'))
  t.strictSame(await show(), ['old'])
  stream.put('new', whole(0))
  t.ok(stream.put('more', removed('more')))
  t.strictSame([...own.states.of(someAgent.id).keys()], ['gone', 'new'], 'nothing that is there makes room for it')
  t.ok(stream.put('other', whole(0)))
  t.strictSame([...own.states.of(someAgent.id).keys()], ['new', 'other'])
})

t.test('a body stays bounded', async (t) => {
  const { states, clock } = start({ maxAgentBytes: 16 << 20 })
  const stream = states.open(a)
  const trouble = Array.from({ length: 100 }, () => ({ text: '\u0001'.repeat(400) }))
  for (let i = 0; i < 20; i++) {
    const state = encoded({ source: `s${i}`, trouble, counts: { failed: 100 } })
    stream.put(`s${i}`, { whole: state, cut: () => state })
  }
  const { body } = await stateEndpoint({ states, clock, ...rest, peers: noPeers }).serve({ agentId: a } as OwnRequest)
  t.ok(body.length < 1 << 20)
  t.match(JSON.parse(String(Buffer.from(body))).sources[0], { cut: true, counts: { failed: 100 }, trouble: [] })
})

/** Returns unknown fields with numbers from 1000 on, of at least two bytes each. */
function unknownFields(bytes: number, each = 0): Uint8Array {
  const field = Buffer.concat([Buffer.from([0xc2, 0x3e, ...varint(each)]), Buffer.alloc(each)])
  return Buffer.concat(Array<Buffer>(Math.floor(bytes / field.length)).fill(field))
}

const varint = (value: number) => (value < 128 ? [value] : [(value & 127) | 128, value >> 7])

t.test('what this version does not know is kept as it came where it is little, and never much of it', async (t) => {
  const { states, clock } = start()
  const serve = pushStates({ states, clock }, { pollMs: 1000 })
  const state = encoded({ source: '42-7', project: 'a/b', phase: Phase.SYNCED, trouble: [{ text: 'x' }] })
  const push = (more: Uint8Array) => new FakeAgentCall({ messages: [Buffer.concat([state, more])] }).servedBy(serve)
  const kept = () => states.of(someAgent.id).get('42-7')?.bytes ?? bytes(0)
  t.equal(await push(unknownFields(4000, 8)), 'OK')
  t.equal(kept().length, Buffer.concat([state, unknownFields(4000, 8)]).length, 'a later agentk says more')
  t.equal(await push(unknownFields(9000, 1000)), 'OK')
  t.strictSame(Buffer.from(kept()), Buffer.from(state))
  const nested = Buffer.concat([Buffer.from([0x32, ...varint(9000)]), unknownFields(9000, 6)]) // inside `counts`
  t.equal(nested.length, 9003)
  t.equal(await push(nested), 'OK')
  t.ok(kept().length <= state.length + 2, 'also where it stands inside')
  for (const [more, text] of [
    [unknownFields(60_000), 'more than 1000 fields of a state'],
    [encoded({ problem: 'x'.repeat(16 * 1024 + 1) }), 'field 10 of a state has more than 16384 bytes'],
    [encoded({ project: 'x'.repeat(16 * 1024) }), undefined],
  ] as const) {
    const ended = await push(more)
    if (text === undefined) t.equal(ended, 'OK')
    else t.match(ended, { code: 'INVALID_MESSAGE', message: new RegExp(text) })
  }
})

t.test('who asks at once gets one answer, and others have their turn while it is made', async (t) => {
  const { states, clock } = start({ maxAgentBytes: 64 << 20 })
  const stream = states.open(a)
  const trouble = Array.from({ length: 100 }, () => ({ text: 'x'.repeat(500) }))
  for (let i = 0; i < 15; i++) {
    const state = Buffer.concat([encoded({ source: `s${i}`, trouble }), unknownFields(60_000)]) // from an older replica
    stream.put(`s${i}`, { whole: state, cut: () => state })
  }
  let broadcasts = 0
  const peers = {
    ...noPeers,
    broadcast: async () => {
      broadcasts += 1
      return new Map()
    },
  } as unknown as typeof noPeers
  const endpoint = stateEndpoint({ states, clock, ...rest, peers })
  let turns = 0
  let isOver = false
  const turn = () => {
    turns += 1
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  const answers = await Promise.all(Array.from({ length: 16 }, () => endpoint.serve({ agentId: a } as OwnRequest)))
  isOver = true
  t.ok(turns >= 15, `${turns} turns of others`)
  t.equal(broadcasts, 1)
  t.equal(new Set(answers.map(({ body }) => body)).size, 1)
  t.equal(JSON.parse(String(Buffer.from(answers[0]?.body ?? bytes(0)))).sources.length, 15)
  await endpoint.serve({ agentId: a } as OwnRequest)
  t.equal(broadcasts, 2, 'who asks later gets what is newer')
})
