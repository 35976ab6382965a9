import t from 'tap'
import { RefusalLog } from '../../../../../src/kas/directory/file/refusal-log.ts'
import { capturedLog } from '../../../../support/captured-log.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

t.test('each refusal is told once an hour, and only so many are remembered', async (t) => {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const refusals = new RefusalLog({ clock, log })
  const tell = (username: string) => refusals.log('info', { username, reason: 'no role' }, 'User refused')
  for (let again = 0; again < 3; again++) tell('ada')
  tell('bob')
  t.match(lines, [{ level: 'info', msg: 'User refused', username: 'ada', reason: 'no role' }, { username: 'bob' }])
  t.equal(lines.length, 2)
  clock.advance(3_600_000)
  tell('ada')
  t.equal(lines.length, 3)
  for (let i = 0; i < 998; i++) tell(`user ${i}`)
  tell('ada')
  t.equal(lines.length, 1001, 'still known')
  clock.advance(1)
  tell('one more')
  tell('ada')
  t.equal(lines.length, 1003, 'those told longest ago were forgotten')
  tell('user 997')
  t.equal(lines.length, 1003, 'but not the latest')
})
