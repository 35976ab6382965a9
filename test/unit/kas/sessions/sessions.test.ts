import { randomUUID } from 'node:crypto'
import { fromBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { bounds } from '../../../../src/kas/access-log/access-line.ts'
import { ReplicaSessions } from '../../../../src/kas/sessions/replica-sessions.ts'
import { maxListed, type Session, SessionTable } from '../../../../src/kas/sessions/session-table.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { ListSessionsResponseSchema } from '../../../../src/proto/gen/replica_sessions_pb.ts'
import { replicaLimits } from '../../../../src/proto/grpc/limits.ts'
import type { UnaryMethods } from '../../../../src/proto/unary.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { FakePeers } from '../peers/fake-peers.ts'

const prod = 42n as AgentId
const clock = new ManualClock()

function session(more: Partial<Session> = {}) {
  const ended: KasError[] = []
  const made: Session = {
    id: randomUUID(),
    agentId: prod,
    user: { id: 5n, name: 'ada' },
    since: clock.now(),
    lasts: true,
    fields: () => ({ verb: 'watch', resource: 'pods' }),
    end: (reason) => ended.push(reason),
    ...more,
  }
  return { ...made, ended }
}

function replica(name: string, peers = new FakePeers(), table = new SessionTable()) {
  const { log, lines } = capturedLog()
  return { name, table, lines, sessions: new ReplicaSessions({ table, peers, name, clock, log }) }
}

t.test('what lasts is listed, and what has run for long', async (t) => {
  const table = new SessionTable()
  const [watch, upload] = [session(), session({ lasts: false })]
  const leave = table.add(watch)
  table.add(upload)
  t.strictSame(table.list({}, clock.now()).sessions, [
    { id: watch.id, since: '2026-06-01T00:00:00.000Z', verb: 'watch', resource: 'pods' },
  ])
  t.equal(table.list({}, clock.now() + 10_000).total, 2)
  leave()
  t.equal(table.size, 1)
})

t.test('by user, agent and id', async (t) => {
  const table = new SessionTable()
  const all = [
    session(),
    session({ user: { id: 6n, name: 'bob' } }),
    session({ agentId: 43n as AgentId }),
    session({ user: { id: 7n, name: '5' } }),
  ]
  for (const each of all) table.add(each)
  const found = (filter: Parameters<SessionTable['list']>[0]) =>
    table.list(filter, clock.now()).sessions.map(({ id }) => all.findIndex((each) => each.id === id))
  t.strictSame(found({}), [0, 1, 2, 3])
  t.strictSame(found({ user: 'ada' }), [0, 2])
  t.strictSame(found({ user: '6' }), [1])
  t.strictSame(found({ user: '5' }), [0, 2], 'a number is an id alone')
  t.strictSame(found({ user: '@5' }), [3])
  t.strictSame(found({ user: 'ada', agentId: prod }), [0])
  t.strictSame(found({ id: all[2]?.id.slice(0, 8) }), [2])
  t.strictSame(found({ id: all[2]?.id.slice(0, 7) }), [], 'too short to stand for one')
})

t.test('there is a bound, and one of what is listed', async (t) => {
  const table = new SessionTable({ maxSessions: maxListed + 1 })
  for (let i = 0; i <= maxListed; i++) table.add(session())
  t.throws(
    () => table.add(session()),
    new KasError({
      code: 'TOO_MANY_STREAMS',
      name: 'calls_at_replica',
      limit: maxListed + 1,
      what: 'calls at this replica',
    }),
  )
  const { sessions, total } = table.list({}, clock.now())
  t.strictSame([sessions.length, total], [maxListed, maxListed + 1])
})

t.test('what callers have made long is listed as far as a message between replicas goes', async (t) => {
  const { table, sessions } = replica('kas-1')
  const [name, selector] = ['€'.repeat(bounds.name), '€'.repeat(bounds.selector)]
  const fields = { namespace: name, name, label_selector: selector, field_selector: selector, user_agent: name }
  for (let i = 0; i < maxListed; i++) table.add(session({ fields: () => fields }))
  const list = sessions.replicaMethods.get('/kas.replica.v1.Sessions/List')
  const answer = (await list?.(new Uint8Array(0))) as Uint8Array
  t.ok(answer.length < replicaLimits.maxMessageBytes, `${answer.length} bytes`)
  const { session: listed, total } = fromBinary(ListSessionsResponseSchema, answer)
  t.ok(listed.length > 100, `${listed.length} of them`)
  t.equal(total, maxListed)
})

t.test('a peer that names nobody ends nothing: what it has named may not be known here', async (t) => {
  const { table, sessions } = replica('kas-1')
  const running = session()
  table.add(running)
  const end = sessions.replicaMethods.get('/kas.replica.v1.Sessions/End')
  await t.rejects(async () => end?.(new Uint8Array(0)), { code: 'INVALID_MESSAGE' })
  t.same(running.ended, [])
})

t.test('at all replicas; those that do not answer are named', async (t) => {
  const other = replica('kas-1')
  const peers = new FakePeers(
    new Map<string, UnaryMethods>([
      ['kas-1', other.sessions.replicaMethods],
      ['kas-2', new Map()],
    ]),
  )
  const own = replica('kas-0', peers)
  const [here, there, bob] = [
    session(),
    session({ agentId: 43n as AgentId }),
    session({ user: { id: 6n, name: 'bob' } }),
  ]
  own.table.add(here)
  other.table.add(there)
  other.table.add(bob)
  const listed = await own.sessions.list({ user: 'ada' })
  t.match(listed, {
    replicas: [
      { name: 'kas-0', total: 1, sessions: [{ id: here.id }] },
      { name: 'kas-1', total: 1, sessions: [{ id: there.id, verb: 'watch' }] },
    ],
    unreached: ['kas-2'],
  })
  t.strictSame(await own.sessions.end({ user: 'ada' }, 'maintenance'), {
    replicas: [
      { name: 'kas-0', ended: 1 },
      { name: 'kas-1', ended: 1 },
    ],
    unreached: ['kas-2'],
  })
  for (const { ended } of [here, there])
    t.strictSame(
      ended.map(({ code, message }) => [code, message]),
      [['SESSION_ENDED', 'Ended by an operator: maintenance']],
    )
  t.strictSame(bob.ended, [], 'nobody else')
  t.match(other.lines.at(-1), { msg: 'An operator has ended sessions', username: 'ada', count: 1 })
  await own.sessions.end({ agentId: 43n as AgentId }, '')
  t.equal(there.ended[1]?.message, 'Ended by an operator')
})
