import t from 'tap'
import type { Reach } from '../../../../src/kas/peers/link.ts'
import { LinkWarnings, type WatchedLink } from '../../../../src/kas/peers/link-warnings.ts'
import type { InstanceId } from '../../../../src/membership/membership.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function watched(name: string, reach: Reach, failure?: unknown): WatchedLink {
  return { instance: `of ${name}` as InstanceId, name, address: `${name}:8155`, link: { reach, failure } }
}

function warnings() {
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  return { clock, lines, one: new LinkWarnings({ clock, log }) }
}

t.test('one warning for an outage that lasts, one line when it is over', (t) => {
  const { clock, lines, one } = warnings()
  one.check([watched('kas-1', 'reachable'), watched('kas-2', 'reachable')])
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const out = watched('kas-1', 'down', refused)
  one.check([out, watched('kas-2', 'suspect')])
  clock.advance(4999)
  t.strictSame(lines, [])
  for (let second = 0; second < 60; second++) {
    clock.advance(1000)
    one.check([out, watched('kas-2', 'reachable')])
  }
  const expected = {
    level: 'warn',
    name: 'kas-1',
    net_address: 'kas-1:8155',
    reach: 'down',
    error: { code: 'ECONNREFUSED' },
  }
  t.match(lines, [expected])
  t.equal(lines.length, 1)
  one.check([watched('kas-1', 'reachable'), watched('kas-2', 'reachable')])
  clock.advance(60_000)
  t.match(lines.slice(1), [{ level: 'info', name: 'kas-1' }])
  one.check([watched('kas-1', 'unreachable')])
  clock.advance(5000)
  t.match(lines.slice(2), [{ level: 'warn', name: 'kas-1', reach: 'unreachable' }], 'the next outage is told again')
  t.end()
})

t.test('what is short, and who leaves or goes, is not told', (t) => {
  const { clock, lines, one } = warnings()
  one.check([watched('kas-1', 'down'), watched('kas-2', 'down')])
  clock.advance(4000)
  one.check([watched('kas-1', 'reachable')])
  clock.advance(60_000)
  one.check([watched('kas-1', 'unreachable')])
  one.stop()
  clock.advance(60_000)
  t.strictSame(lines, [])
  t.end()
})
