import t from 'tap'
import { LimitedLog } from '../../../src/lib/limited-log.ts'
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
