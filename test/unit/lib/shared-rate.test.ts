import t from 'tap'
import { SharedRate, SharedRates } from '../../../src/lib/shared-rate.ts'
import { ManualClock } from '../../support/manual-clock.ts'

const rate = { perSecond: 1000, burst: 2000 }

function ground() {
  const clock = new ManualClock()
  return { clock, shared: new SharedRate(clock, rate) }
}

t.test('who takes what is there owes nothing, and one alone has all of the rate', async (t) => {
  const { clock, shared } = ground()
  shared.take('a', 2000)
  t.equal(shared.msUntilPaid('a'), 0)
  shared.take('a', 3000)
  t.equal(shared.msUntilPaid('a'), 3000)
  clock.advance(2999)
  t.equal(shared.msUntilPaid('a'), 1)
  clock.advance(1)
  t.equal(shared.msUntilPaid('a'), 0)
  clock.advance(1000)
  t.notOk(shared.isFull)
  clock.advance(1000)
  t.ok(shared.isFull)
})

t.test('what one owes does not delay another, who takes little', async (t) => {
  const { clock, shared } = ground()
  shared.take('greedy', 1_000_000)
  for (let i = 0; i < 100; i++) {
    t.equal(shared.msUntilPaid('other'), 0)
    shared.take('other', 10)
    t.equal(shared.msUntilPaid('other'), 20, 'both pay in equal parts')
    clock.advance(1000)
  }
  t.equal(shared.msUntilPaid('greedy'), 1_000_000 - 2000 + 1000 - 100_000)
})

t.test('all together take no more than the rate, however many they are', async (t) => {
  const { clock, shared } = ground()
  const takers = Array.from({ length: 20 }, (_, i) => `t${i}`)
  const took = new Map(takers.map((taker) => [taker, 0]))
  for (let ms = 0; ms < 60_000; ms += 10) {
    for (const taker of takers) {
      if (shared.msUntilPaid(taker) > 0) continue
      shared.take(taker, 500)
      took.set(taker, (took.get(taker) ?? 0) + 500)
    }
    clock.advance(10)
  }
  const all = [...took.values()].reduce((sum, one) => sum + one, 0)
  const most = 2000 + 60_000 + takers.length * 500
  t.ok(all <= most && all >= 60_000, `${all} of ${most}`)
  t.ok(Math.max(...took.values()) - Math.min(...took.values()) <= 1500, 'and each as much as another')
})

t.test('debts are counted of so many: the rest owe together', async (t) => {
  const { shared } = ground()
  shared.take('first', 2000)
  for (let i = 0; i < 1000; i++) shared.take(`t${i}`, 1)
  t.equal(shared.msUntilPaid('new'), 0)
  shared.take('new', 1)
  t.ok(shared.msUntilPaid('another') > 0)
})

t.test('keys: those that are full make room, else the one that came first', async (t) => {
  const clock = new ManualClock()
  const rates = new SharedRates<number>(clock, { ...rate, maxKeys: 2 })
  rates.of(1).take('a', 3000)
  rates.of(2).take('a', 1)
  t.equal(rates.of(1).msUntilPaid('a'), 1000)
  clock.advance(10)
  rates.of(3).take('a', 5000)
  t.equal(rates.size, 2)
  t.ok(rates.of(1).msUntilPaid('a') > 0)
  rates.of(4)
  t.equal(rates.size, 2)
  t.ok(rates.of(3).msUntilPaid('a') > 0)
})

t.test('a clock that is put back gives nothing', async (t) => {
  let now = 1000
  const shared = new SharedRate({ now: () => now }, rate)
  shared.take('a', 3000)
  now = 0
  t.equal(shared.msUntilPaid('a'), 1000)
})
