import t from 'tap'
import { TokenExpiry } from '../../../../../src/kas/directory/file/token-expiry.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const hourMs = 3_600_000

function start(clock = new ManualClock()) {
  const told: number[] = []
  const agents: (readonly number[])[] = []
  const begin = clock.now()
  const expiry = new TokenExpiry({
    clock,
    onExpired: (owners: ReadonlySet<number>) => {
      told.push(clock.now() - begin)
      agents.push([...owners])
    },
  })
  /** Tokens that end at these times: the first of agent 1, the next of agent 2, and so on. */
  const at = (...ms: number[]) => ms.map((each, i) => ({ owner: i + 1, at: begin + each }))
  return { clock, told, agents, expiry, at }
}

t.test('tells of each moment at which a token becomes void, once', async (t) => {
  const { clock, told, agents, expiry, at } = start()
  expiry.watch(at(3 * hourMs, hourMs, hourMs, -hourMs))
  t.equal(clock.pending, 1, 'one timer')
  clock.advance(hourMs - 1)
  t.same(told, [])
  clock.advance(1)
  t.same(told, [hourMs])
  clock.advance(10 * hourMs)
  t.same(told, [hourMs, 3 * hourMs])
  t.same(agents, [[2, 3], [1]], 'and whose they were')
})

t.test('no expiry: no timer; of one that is past already nothing is told', async (t) => {
  const { clock, told, expiry, at } = start()
  expiry.watch([])
  t.equal(clock.pending, 0)
  expiry.watch(at(-1, 0))
  clock.advance(hourMs)
  t.same(told, [])
})

t.test('what is in force later replaces what was', async (t) => {
  const { clock, told, expiry, at } = start()
  expiry.watch(at(hourMs))
  expiry.watch(at(2 * hourMs))
  t.equal(clock.pending, 1)
  clock.advance(3 * hourMs)
  t.same(told, [2 * hourMs])
  expiry.watch(at(4 * hourMs))
  expiry.stop()
  t.equal(clock.pending, 0)
  expiry.watch(at(5 * hourMs))
  t.equal(clock.pending, 0, 'nothing begins after the end')
})

t.test('later than a timer can wait, and a clock that is moved', async (t) => {
  const { clock, told, expiry, at } = start()
  const waits: number[] = []
  const after = clock.after.bind(clock)
  clock.after = (ms, action) => {
    waits.push(ms)
    return after(ms, action)
  }
  const years = 3 * 365 * 24 * hourMs
  expiry.watch(at(years))
  t.ok(Math.max(...waits) <= 2 ** 31 - 1)
  const now = clock.now.bind(clock)
  clock.now = () => now() + years // as if the machine slept, or its clock was corrected
  clock.advance(2000)
  t.equal(told.length, 1)
})

t.test('a token that a clock put back makes good again becomes void once more', async (t) => {
  const { clock, told, expiry, at } = start()
  let backMs = 0
  const now = clock.now.bind(clock)
  clock.now = () => now() - backMs
  expiry.watch(at(hourMs))
  clock.advance(hourMs)
  t.equal(told.length, 1)
  backMs = hourMs
  clock.advance(hourMs - 1)
  t.equal(told.length, 1)
  clock.advance(2000)
  t.equal(told.length, 2)
})
