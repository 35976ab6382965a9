import t from 'tap'
import { LeaderRule, type LeaseRecord, type Moment, stockTimes } from '../../../../src/agentk/election/leader-rule.ts'

const lease = (holder: string, resourceVersion: string, more: Partial<LeaseRecord> = {}): LeaseRecord => ({
  holder,
  resourceVersion,
  durationSeconds: 15,
  acquireTime: '',
  renewTime: '',
  transitions: 0,
  ...more,
})

function candidate() {
  const now = { monotonic: 0, wall: 0 }
  const rule = new LeaderRule('me', stockTimes, () => ({ ...now }))
  const pass = (ms: number) => {
    now.monotonic += ms
    now.wall += ms
  }
  return { rule, now, pass, moment: (): Moment => ({ ...now }) }
}

t.test('no lease: create it, then act', (t) => {
  const { rule, moment } = candidate()
  t.notOk(rule.holds())
  t.equal(rule.observe(undefined), 'create')
  t.notOk(rule.holds(), 'not before the write was accepted')
  rule.granted(lease('me', '1'), moment())
  t.ok(rule.holds())
  t.equal(rule.observe(lease('me', '1')), 'renew')
  t.ok(rule.holds())
  t.end()
})

t.test('a leader that could not renew stops before others begin', (t) => {
  const { rule, moment, pass } = candidate()
  rule.granted(lease('me', '1'), moment())
  pass(9999)
  t.ok(rule.holds())
  pass(1)
  t.notOk(rule.holds())
  t.end()
})

t.test('the term counts from the beginning of the attempt, not from its answer', (t) => {
  const { rule, moment, pass } = candidate()
  const startedAt = moment()
  pass(30_000) // frozen between the question and the answer
  rule.granted(lease('me', '2'), startedAt)
  t.notOk(rule.holds())
  t.end()
})

t.test('sleep stops the monotonic clock: the wall clock ends the term', (t) => {
  const { rule, now, moment } = candidate()
  rule.granted(lease('me', '1'), moment())
  now.wall += 60_000
  t.notOk(rule.holds())
  t.end()
})

t.test('a wall clock set back does not lengthen the term', (t) => {
  const { rule, now, moment } = candidate()
  rule.granted(lease('me', '1'), moment())
  now.wall -= 3_600_000
  now.monotonic += 10_000
  t.notOk(rule.holds())
  t.end()
})

t.test('others wait the whole lease since the last change that they saw', (t) => {
  const { rule, pass } = candidate()
  t.equal(rule.observe(lease('other', '1')), 'wait')
  pass(14_000)
  t.equal(rule.observe(lease('other', '2')), 'wait', 'renewed')
  pass(15_000)
  t.equal(rule.observe(lease('other', '2')), 'wait')
  pass(1)
  t.equal(rule.observe(lease('other', '2')), 'take')
  t.end()
})

t.test('a wall clock that jumps ahead takes nothing from the holder', (t) => {
  const { rule, now } = candidate()
  rule.observe(lease('other', '1'))
  now.wall += 3_600_000
  t.equal(rule.observe(lease('other', '1')), 'wait')
  t.end()
})

t.test('a holder that asks for a longer lease gets it', (t) => {
  const { rule, pass } = candidate()
  rule.observe(lease('other', '1', { durationSeconds: 60 }))
  pass(16_000)
  t.equal(rule.observe(lease('other', '1', { durationSeconds: 60 })), 'wait')
  t.end()
})

t.test('a released lease is free at once', (t) => {
  const { rule } = candidate()
  t.equal(rule.observe(lease('', '5')), 'take')
  t.end()
})

t.test('seeing another holder ends our term', (t) => {
  const { rule, moment } = candidate()
  rule.granted(lease('me', '1'), moment())
  t.equal(rule.observe(lease('other', '2')), 'wait')
  t.notOk(rule.holds())
  t.end()
})
