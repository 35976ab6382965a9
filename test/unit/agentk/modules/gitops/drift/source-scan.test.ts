import t from 'tap'
import { SourceScan } from '../../../../../../src/agentk/modules/gitops/drift/source-scan.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

function begin(periodMs: number, random = 0) {
  const clock = new ManualClock()
  const ending = new AbortController()
  const checked: string[] = []
  const check = async (text: string) => void checked.push(text)
  const scan = new SourceScan({ check, clock, random: () => random }, { periodMs, signal: ending.signal })
  return { scan, clock, checked, stop: () => ending.abort() }
}

t.test('each object once in a period, spread evenly, from a random one on', async (t) => {
  const { scan, clock, checked } = begin(100_000, 0.5)
  scan.update(['a', 'b', 'c', 'd'])
  await clock.pass(25_000)
  t.strictSame(checked, ['c'])
  await clock.pass(75_000)
  t.strictSame(checked, ['c', 'd', 'a', 'b'])
  await clock.pass(100_000)
  t.equal(checked.length, 8)
})

t.test('never above one call a second, however many objects there are', async (t) => {
  const { scan, clock, checked } = begin(1000)
  scan.update(Array.from({ length: 10_000 }, (_, i) => String(i)))
  await clock.pass(60_000)
  t.equal(checked.length, 60)
})

t.test('objects that come and go, none, and the end', async (t) => {
  const { scan, clock, checked, stop } = begin(10_000)
  scan.update([])
  t.equal(clock.pending, 0)
  scan.update(['a'])
  await clock.pass(10_000)
  scan.update(['b', 'c'])
  await clock.pass(15_000)
  t.strictSame(checked, ['a', 'b', 'c'])
  scan.update([])
  await clock.pass(100_000)
  t.equal(checked.length, 3)
  scan.update(['d'])
  stop()
  await clock.pass(100_000)
  t.equal(checked.length, 3)
})
