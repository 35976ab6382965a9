import t from 'tap'
import { jittered, pause, retryPauseMs } from '../../../../src/membership/discovery/pause.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

t.test('pauses double up to the longest, each a fifth less or more', async (t) => {
  const options = { firstRetryMs: 100, maxRetryMs: 1_000 }
  const pauses = [1, 2, 3, 4, 5, 6, 2_000].map((failures) => retryPauseMs(failures, options, () => 0.5))
  t.strictSame(pauses, [100, 200, 400, 800, 1_000, 1_000, 1_000])
  t.equal(
    jittered(100, () => 0),
    80,
  )
  t.equal(Math.round(jittered(100, () => 0.999)), 120)
})

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
