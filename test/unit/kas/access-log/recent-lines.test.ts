import t from 'tap'
import { type AccessLine, accessLineText } from '../../../../src/kas/access-log/access-line.ts'
import {
  type LineFilter,
  maxRecentBytes,
  maxRecentLines,
  RecentLines,
} from '../../../../src/kas/access-log/recent-lines.ts'

const line = (i: number, more: Partial<AccessLine> = {}): AccessLine => ({
  time: new Date(i * 1000).toISOString(),
  event: 'end',
  class: 'write',
  entry: 'kas-0',
  count: i,
  ...more,
})

function ground() {
  const recent = new RecentLines()
  const add = (each: AccessLine) => recent.add(each, accessLineText(each))
  const matching = (filter: LineFilter = {}) =>
    Array.from(recent.matching(filter), (text) => (JSON.parse(text) as AccessLine).count)
  return { recent, add, matching }
}

t.test('those that fit, the oldest first', async (t) => {
  const { add, matching } = ground()
  const ada = { kind: 'personal_access_token', id: '5', name: 'ada' } as const
  add(line(1, { agent_id: '42', verb: 'delete', caller: ada }))
  add(line(2, { agent_id: '43', verb: 'delete' }))
  add(line(3, { agent_id: '42', verb: 'create' }))
  t.strictSame(matching(), [1, 2, 3])
  t.strictSame(matching({ agent: '42' }), [1, 3])
  t.strictSame(matching({ verb: 'delete' }), [1, 2])
  t.strictSame(matching({ user: 'ada' }), [1])
  t.strictSame(matching({ user: '5', agent: '42' }), [1])
  add(line(1, { count: 4, caller: { ...ada, id: '6', name: '5' } }))
  t.strictSame(matching({ user: '5' }), [1], 'a number is an id')
  t.strictSame(matching({ user: '@5' }), [4])
  t.strictSame(matching({ since: '1970-01-01T00:00:02.000Z' }), [2, 3])
})

t.test('the last, in number and in bytes', async (t) => {
  const { recent, add, matching } = ground()
  for (let i = 0; i < maxRecentLines + 5; i++) add(line(i))
  t.equal(matching().length, maxRecentLines)
  t.equal(matching()[0], 5)
  const path = 'x'.repeat(1024 * 1024)
  for (let i = 0; i < 20; i++) add(line(i, { path }))
  const kept = [...recent.matching({})]
  t.ok(kept.reduce((sum, { length }) => sum + length, 0) <= maxRecentBytes)
  t.equal(kept.length, 15)
})

t.test('whoever has most lines loses them, and nobody else', async (t) => {
  const { add, matching } = ground()
  const user = (id: number) => ({ kind: 'personal_access_token', id: `${id}`, name: `user-${id}` }) as const
  const job = (id: number) => ({ ...user(id), kind: 'ci_job' }) as const
  const agent = { event: 'agent_connected', class: 'session' } as const
  for (let i = 0; i < 30; i++) add(line(i, { agent_id: '42', verb: 'delete', caller: user(5) }))
  add(line(30, { ...agent, agent_id: '42' }))
  for (let i = 0; i < 2 * maxRecentLines; i++) {
    const caller = i % 3 === 0 ? user(6) : job(6)
    add(line(100 + i, { agent_id: `${i % 60}`, verb: 'delete', caller }))
    add(line(100 + i, { class: 'refusal', agent_id: `${i}`, address: `192.0.2.${i % 256}` }))
  }
  t.strictSame(matching().slice(0, 31), [...Array(31).keys()], 'lines of an incident, and an agent that came')
  t.equal(matching({ userId: '6' }).length, Math.floor((maxRecentLines - 31) / 2))
  t.equal(matching({ userId: '6' }).at(-1), 99 + 2 * maxRecentLines)
})

t.test('pages over lines that others have lost in between', async (t) => {
  const { recent, add } = ground()
  const user = (id: number) => ({ kind: 'personal_access_token', id: `${id}`, name: `user-${id}` }) as const
  add(line(1, { caller: user(5) }))
  for (let i = 0; i < maxRecentLines; i++) add(line(2 + i, { caller: user(6) }))
  add(line(7, { caller: user(5) }))
  const first = recent.page({ user: '5' }, { from: 0, last: 0, maxBytes: 1 })
  t.strictSame([first.lines.length, first.isWhole, first.next], [1, false, maxRecentLines + 1])
  const rest = recent.page({ user: '5' }, { from: first.next, last: 0, maxBytes: 1 })
  t.strictSame([rest.lines.length, rest.isWhole, rest.next], [1, true, maxRecentLines + 2])
  t.equal(recent.page({}, { from: rest.next - 2, last: 0, maxBytes: maxRecentBytes }).lines.length, 2)
})

t.test('those that follow, until nobody listens', async (t) => {
  const { recent, add } = ground()
  add(line(1))
  const heard: string[] = []
  const stop = recent.follow({ verb: 'delete' }, (text) => heard.push(text))
  add(line(2, { verb: 'delete' }))
  add(line(3, { verb: 'create' }))
  stop()
  add(line(4, { verb: 'delete' }))
  t.match(heard, [/"count":2/])
})
