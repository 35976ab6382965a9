import t from 'tap'
import { StableCode } from '../../../../../../src/kas/modules/views/cli/stable-code.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

function start() {
  const clock = new ManualClock()
  const ends: number[] = []
  const held = new StableCode({ clock, onStable: () => ends.push(clock.now()) })
  return { clock, held, ends }
}

t.test('healthy is what has been so for 5 s', async (t) => {
  const { clock, held, ends } = start()
  t.equal(held.code, 5, 'nothing is known')
  held.now(0)
  clock.advance(4999)
  held.now(0)
  t.equal(held.code, 3, 'not yet')
  t.strictSame(ends, [])
  clock.advance(1)
  t.equal(held.code, 0)
  t.equal(ends.length, 1)
})

t.test('a moment of something else begins it anew', async (t) => {
  const { clock, held, ends } = start()
  held.now(0)
  clock.advance(4000)
  held.now(3)
  held.now(0)
  clock.advance(4000)
  t.equal(held.code, 3)
  t.strictSame(ends, [])
  clock.advance(1000)
  t.equal(held.code, 0)
})

t.test('degraded ends the wait too once it has held; progressing and unknown never do', async (t) => {
  const { clock, held, ends } = start()
  held.now(3)
  clock.advance(60_000)
  held.now(5)
  clock.advance(60_000)
  t.strictSame(ends, [])
  held.now(4)
  t.equal(held.code, 4)
  clock.advance(5000)
  t.equal(ends.length, 1)
})

t.test('what has ended fires no more', async (t) => {
  const { clock, held, ends } = start()
  held.now(0)
  held.end()
  clock.advance(60_000)
  t.strictSame(ends, [])
})
