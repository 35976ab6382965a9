import t from 'tap'
import { pause } from '../../../src/lib/pause.ts'
import { ManualClock } from '../../support/manual-clock.ts'

t.test('a pause ends with its time or with its signal, and leaves nothing', async (t) => {
  const clock = new ManualClock()
  const over = pause(100, clock, new AbortController().signal)
  clock.advance(100)
  await over
  const stop = new AbortController()
  const cut = pause(100, clock, stop.signal)
  stop.abort()
  await cut
  await pause(100, clock, stop.signal)
  t.equal(clock.pending, 0)
})
