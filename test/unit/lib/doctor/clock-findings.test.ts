import t from 'tap'
import { aheadByDate, clockFinding } from '../../../../src/lib/doctor/clock-findings.ts'

/**
 * The offset of a clock is known to the second of a Date and the duration of an answer. It is reported only if certain.
 */

const date = 'Fri, 02 Jan 2026 10:00:00 GMT'
const at = Date.parse(date)

t.test('a clock that is right to the second is not complained of', async (t) => {
  for (const offMs of [-900, 0, 900]) {
    const ahead = aheadByDate(date, { sentAt: at + offMs - 100, receivedAt: at + offMs })
    t.match(clockFinding('GitLab', "GitLab's", ahead), { check: 'clocks', state: 'ok', text: /within [12] s$/ })
  }
})

t.test('a slow answer is no clock that is off', async (t) => {
  const ahead = aheadByDate(date, { sentAt: at - 60_000, receivedAt: at })
  t.match(clockFinding('GitLab', "GitLab's", ahead), { state: 'ok' })
})

t.test('a minute has failed, ten seconds are told', async (t) => {
  const off = (ms: number) =>
    clockFinding('GitLab', "GitLab's", aheadByDate(date, { sentAt: at + ms - 100, receivedAt: at + ms }))
  t.match(off(60_000), { state: 'failed', text: "GitLab's clock is 59 s behind this one", advice: /time server/ })
  t.match(off(-60_000), { state: 'failed', text: "GitLab's clock is 60 s ahead of this one" })
  t.match(off(10_000), { state: 'note' })
})

t.test('an answer without a Date says nothing', async (t) => {
  for (const none of [undefined, null, '', 'yesterday']) {
    t.match(clockFinding('GitLab', "GitLab's", aheadByDate(none, { sentAt: at, receivedAt: at })), { state: 'skipped' })
  }
})
