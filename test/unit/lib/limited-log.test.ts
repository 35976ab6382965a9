import t from 'tap'
import { HourlyLog, LimitedLog } from '../../../src/lib/limited-log.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.test('one line a minute, and how often it was meant', async (t) => {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const limited = new LimitedLog({ clock, log }, 'It went wrong')
  for (const reason of ['one', 'two', 'three']) limited.warn(reason)
  clock.advance(59_999)
  limited.warn('four')
  t.match(lines, [{ level: 'warn', msg: 'It went wrong', reason: 'one', count: undefined }])
  clock.advance(1)
  limited.warn('five')
  t.match(lines.slice(1), [{ reason: 'five', count: 3 }])
  clock.advance(60_000)
  limited.warn('six')
  t.match(lines.slice(2), [{ reason: 'six', count: undefined }])
  t.equal(lines.length, 3)
})

t.test('each line once an hour, and only so many are remembered', async (t) => {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const hourly = new HourlyLog({ clock, log })
  const write = (username: string) => hourly.log('info', { username, reason: 'no role' }, 'User refused')
  for (let again = 0; again < 3; again++) write('ada')
  write('bob')
  t.match(lines, [{ level: 'info', msg: 'User refused', username: 'ada', reason: 'no role' }, { username: 'bob' }])
  t.equal(lines.length, 2)
  clock.advance(3_600_000)
  write('ada')
  t.equal(lines.length, 3)
  for (let i = 0; i < 998; i++) write(`user ${i}`)
  write('ada')
  t.equal(lines.length, 1001, 'still known')
  clock.advance(1)
  write('one more')
  write('ada')
  t.equal(lines.length, 1003, 'those written longest ago were forgotten')
  write('user 997')
  t.equal(lines.length, 1003, 'but not the latest')
})
