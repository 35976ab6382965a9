import t from 'tap'
import { jittered, retryPauseMs } from '../../../../src/membership/discovery/retry.ts'

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
