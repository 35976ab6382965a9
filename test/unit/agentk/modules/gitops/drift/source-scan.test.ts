import t from 'tap'
import { SourceScan, scanRate } from '../../../../../../src/agentk/modules/gitops/drift/source-scan.ts'
import { RateLimit } from '../../../../../../src/lib/rate-limit.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const hourMs = 3_600_000

interface Check {
  readonly text: string
  readonly at: number
}

/** Sources of one agent. */
function agent() {
  const clock = new ManualClock(0)
  const pace = new RateLimit(clock, scanRate)
  const checks: Check[] = []
  const checked = () => checks.map(({ text }) => text)
  const begin = (periodMs: number, random = 0) => {
    const ending = new AbortController()
    const check = async (text: string) => void checks.push({ text, at: clock.now() })
    const scan = new SourceScan({ check, pace, clock, random: () => random }, { periodMs, signal: ending.signal })
    return { scan, stop: () => ending.abort() }
  }
  /** shortest time between two checks. ms */
  const shortest = () => Math.min(...checks.slice(1).map(({ at }, i) => at - (checks[i] as Check).at))
  return { clock, checks, checked, begin, shortest }
}

const texts = (source: number, count: number) => Array.from({ length: count }, (_, i) => `${source}/${i}`)

t.test('each object once in a period, spread evenly, from a random one on', async (t) => {
  const { clock, checked, begin } = agent()
  begin(100_000, 0.5).scan.update(['a', 'b', 'c', 'd'])
  await clock.pass(25_000)
  t.strictSame(checked(), ['c'])
  await clock.pass(75_000)
  t.strictSame(checked(), ['c', 'd', 'a', 'b'])
  await clock.pass(100_000)
  t.equal(checked().length, 8)
})

t.test('10,000 objects at 6 hours are checked once each, never above one call a second', async (t) => {
  const { clock, checked, begin, shortest } = agent()
  begin(6 * hourMs).scan.update(texts(0, 10_000))
  await clock.pass(6 * hourMs)
  t.equal(new Set(checked()).size, 10_000)
  t.equal(checked().length, 10_000)
  t.ok(shortest() >= 1000, `${shortest()} ms`)
})

t.test('so it is for 100 sources that begin at the same time', async (t) => {
  const { clock, checked, begin, shortest } = agent()
  for (let source = 0; source < 100; source++) begin(6 * hourMs).scan.update(texts(source, 100))
  await clock.pass(6.1 * hourMs)
  t.equal(new Set(checked()).size, 10_000)
  t.ok(shortest() >= 1000, `${shortest()} ms`)
})

t.test('never above one call a second, however many objects are due: sources take turns', async (t) => {
  const { clock, checks, checked, begin, shortest } = agent()
  begin(300_000).scan.update(texts(0, 10_000))
  begin(300_000).scan.update(texts(1, 100))
  await clock.pass(200_000)
  t.ok(shortest() >= 1000, `${shortest()} ms`)
  t.ok(checks.length >= 199, 'the rate is used')
  const modest = checked().filter((text) => text.startsWith('1/')).length
  t.ok(modest >= 48, `${modest} of the source with few objects: one each 4 s at most`)
})

t.test('objects that come and go, none, and the end', async (t) => {
  const { clock, checked, begin } = agent()
  const { scan, stop } = begin(10_000)
  scan.update([])
  t.equal(clock.pending, 0)
  scan.update(['a'])
  await clock.pass(10_000)
  scan.update(['b', 'c'])
  await clock.pass(15_000)
  t.strictSame(checked(), ['a', 'b', 'c'])
  scan.update([])
  await clock.pass(100_000)
  t.equal(checked().length, 3)
  scan.update(['d'])
  stop()
  await clock.pass(100_000)
  t.equal(checked().length, 3)
})

t.test('a source that ends while it waits for its turn is not checked', async (t) => {
  const { clock, checked, begin } = agent()
  begin(10_000).scan.update(['a'])
  const { scan, stop } = begin(10_000)
  scan.update(['b'])
  await clock.pass(10_000)
  t.strictSame(checked(), ['a'])
  stop()
  await clock.pass(9000)
  t.strictSame(checked(), ['a'])
})
