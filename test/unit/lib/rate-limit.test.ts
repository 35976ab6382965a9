import t from 'tap'
import { RateLimit, RateLimits } from '../../../src/lib/rate-limit.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Seeded } from '../../support/seeded.ts'

t.test('a burst at once, then the rate; what is owed is waited for', async (t) => {
  const clock = new ManualClock()
  const limit = new RateLimit(clock, { perSecond: 10, burst: 5 })
  t.equal(limit.take(5), 0)
  t.equal(limit.take(2), 200)
  t.equal(limit.units, -2)
  clock.advance(100)
  t.equal(limit.take(1), 200, 'behind those before it')
  clock.advance(300)
  t.equal(limit.msUntil(1), 0)
  limit.give(1)
  t.equal(limit.units, 2)
  clock.advance(60_000)
  t.equal(limit.units, 5, 'it takes no more')
  limit.give(3)
  t.equal(limit.units, 5)
  t.equal(limit.take(25), 2000, 'more than it takes at once has to wait, too')
})

t.test('a clock that is put back fills nothing, and takes nothing', async (t) => {
  const clock = { time: 1000, now: () => clock.time }
  const limit = new RateLimit(clock, { perSecond: 1, burst: 2 })
  limit.take(2)
  clock.time = 0
  t.equal(limit.units, 0)
  clock.time = 1000
  t.equal(limit.units, 1)
})

t.test('in any time no more go by than the burst, or one that is larger, and what has filled in', async (t) => {
  const random = Seeded.for(t)
  for (let round = 0; round < 100; round++) {
    const clock = new ManualClock(0)
    const rate = { perSecond: 1 + random.int(100), burst: 1 + random.int(50) }
    const limit = new RateLimit(clock, rate)
    const passed: { at: number; units: number }[] = []
    for (let i = 0; i < 60; i++) {
      clock.advance(random.int(3) * random.int(1000))
      const units = 1 + random.int(80)
      passed.push({ at: clock.now() + limit.take(units), units })
    }
    const tooMuch = passed.flatMap(({ at: from, units: first }, i) => {
      let sum = 0
      return passed.slice(i).flatMap(({ at, units }) => {
        sum += units
        const most = Math.max(rate.burst, first) + ((at - from) * rate.perSecond) / 1000
        return sum > most + 1e-6 ? [`${sum} units from ${from} to ${at}, at most ${most} may go by`] : []
      })
    })
    t.equal(tooMuch[0], undefined)
    t.ok(
      passed.every(({ at }, i) => i === 0 || at >= (passed[i - 1]?.at ?? 0)),
      'one after another',
    )
  }
})

t.test('by key: each has its own, full ones are not kept, others make room', async (t) => {
  const clock = new ManualClock()
  const limits = new RateLimits<number>(clock, { perSecond: 1, burst: 1, maxKeys: 8 })
  t.equal(limits.of(0).take(2), 1000)
  t.equal(limits.of(1).take(1), 0)
  t.equal(limits.of(0).units, -1)
  clock.advance(2000)
  limits.of(0).take(1)
  for (let key = 2; key < 8; key++) limits.of(key).take(1)
  limits.of(8).take(1)
  t.equal(
    limits.size,
    7,
    'who has rested makes room, then of those that are alike who is there longest, until a quarter is free',
  )
  t.equal(limits.of(2).units, 0)
  for (let key = 10; key < 100; key++) {
    limits.of(key).take(1)
    if (limits.size > 8) t.fail(`${limits.size} are kept`)
  }
})

t.test('taken where it is there, however it has filled in', async (t) => {
  const random = Seeded.for(t)
  const clock = new ManualClock(0)
  const limit = new RateLimit(clock, { perSecond: 1 / 60, burst: 1 })
  t.equal(limit.takeIfThere(1), true)
  for (let minute = 0; minute < 100; minute++) {
    let ms = 60_000
    while (ms > 1) {
      const part = 1 + random.int(ms - 1)
      clock.advance(part)
      ms -= part
      if (limit.takeIfThere(1)) t.fail(`${ms} ms too early`)
    }
    clock.advance(ms)
    if (!limit.takeIfThere(1)) t.fail(`not there after minute ${minute}`)
  }
  t.ok(limit.units < 1e-6, 'nothing was taken in between')
})

t.test(
  '1,000 keys at random: never too many, and nobody who owes more is forgotten before one who owes less',
  async (t) => {
    const random = Seeded.for(t)
    const rate = { perSecond: 1, burst: 10, maxKeys: 200 }
    const clock = new ManualClock(0)
    const limits = new RateLimits<number>(clock, rate)
    /** limits if none were forgotten */
    const plain = new Map<number, RateLimit>()
    for (let step = 0; step < 20_000; step++) {
      clock.advance(random.int(20))
      const key = Math.floor(1000 * random.fraction() ** 2)
      const before = limits.size
      const limit = limits.of(key)
      if (limits.size < before) {
        const keys = [...plain.keys()].filter((one) => one !== key)
        const kept = keys.filter((one) => limits.known(one))
        const most = Math.max(...kept.map((one) => (limits.known(one) as RateLimit).units))
        const forgotten = keys.filter((one) => !limits.known(one) && (plain.get(one) as RateLimit).units < most - 1e-6)
        t.strictSame(forgotten, [])
        for (const one of keys) if (!limits.known(one)) plain.delete(one)
      }
      if (!plain.has(key)) plain.set(key, new RateLimit(clock, rate))
      const units = random.int(4)
      const [waitMs, plainMs] = [limit.take(units), (plain.get(key) as RateLimit).take(units)]
      if (Math.abs(waitMs - plainMs) > 1e-3) t.fail(`step ${step}: ${waitMs} and not ${plainMs} ms`)
      if (limits.size > rate.maxKeys) t.fail(`${limits.size} are kept`)
    }
    t.ok(plain.size > 100, `${plain.size} keys`)
  },
)
