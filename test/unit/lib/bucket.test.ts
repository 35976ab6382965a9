import t from 'tap'
import { Bucket, Buckets } from '../../../src/lib/bucket.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { Seeded } from '../../support/seeded.ts'

t.test('a burst at once, then the rate; what is owed is waited for', async (t) => {
  const clock = new ManualClock()
  const bucket = new Bucket(clock, { perSecond: 10, burst: 5 })
  t.equal(bucket.take(5), 0)
  t.equal(bucket.take(2), 200)
  t.equal(bucket.units, -2)
  clock.advance(100)
  t.equal(bucket.take(1), 200, 'behind those before it')
  clock.advance(300)
  t.equal(bucket.msUntil(1), 0)
  bucket.give(1)
  t.equal(bucket.units, 2)
  clock.advance(60_000)
  t.equal(bucket.units, 5, 'it takes no more')
  bucket.give(3)
  t.equal(bucket.units, 5)
  t.equal(bucket.take(25), 2000, 'more than it takes at once has to wait, too')
})

t.test('a clock that is put back fills nothing, and takes nothing', async (t) => {
  const clock = { time: 1000, now: () => clock.time }
  const bucket = new Bucket(clock, { perSecond: 1, burst: 2 })
  bucket.take(2)
  clock.time = 0
  t.equal(bucket.units, 0)
  clock.time = 1000
  t.equal(bucket.units, 1)
})

t.test('in any time no more go by than the burst, or one that is larger, and what has filled in', async (t) => {
  const random = Seeded.for(t)
  for (let round = 0; round < 100; round++) {
    const clock = new ManualClock(0)
    const rate = { perSecond: 1 + random.int(100), burst: 1 + random.int(50) }
    const bucket = new Bucket(clock, rate)
    const passed: { at: number; units: number }[] = []
    for (let i = 0; i < 60; i++) {
      clock.advance(random.int(3) * random.int(1000))
      const units = 1 + random.int(80)
      passed.push({ at: clock.now() + bucket.take(units), units })
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
  const buckets = new Buckets<number>(clock, { perSecond: 1, burst: 1, maxKeys: 8 })
  t.equal(buckets.of(0).take(2), 1000)
  t.equal(buckets.of(1).take(1), 0)
  t.equal(buckets.of(0).units, -1)
  clock.advance(2000)
  buckets.of(0).take(1)
  for (let key = 2; key < 8; key++) buckets.of(key).take(1)
  buckets.of(8).take(1)
  t.equal(
    buckets.size,
    7,
    'who has rested makes room, then of those that are alike who is there longest, until a quarter is free',
  )
  t.equal(buckets.of(2).units, 0)
  for (let key = 10; key < 100; key++) {
    buckets.of(key).take(1)
    if (buckets.size > 8) t.fail(`${buckets.size} are kept`)
  }
})

t.test('taken where it is there, however it has filled in', async (t) => {
  const random = Seeded.for(t)
  const clock = new ManualClock(0)
  const bucket = new Bucket(clock, { perSecond: 1 / 60, burst: 1 })
  t.equal(bucket.takeIfThere(1), true)
  for (let minute = 0; minute < 100; minute++) {
    let ms = 60_000
    while (ms > 1) {
      const part = 1 + random.int(ms - 1)
      clock.advance(part)
      ms -= part
      if (bucket.takeIfThere(1)) t.fail(`${ms} ms too early`)
    }
    clock.advance(ms)
    if (!bucket.takeIfThere(1)) t.fail(`not there after minute ${minute}`)
  }
  t.ok(bucket.units < 1e-6, 'nothing was taken in between')
})

t.test(
  '1,000 keys at random: never too many, and nobody who owes more is forgotten before one who owes less',
  async (t) => {
    const random = Seeded.for(t)
    const rate = { perSecond: 1, burst: 10, maxKeys: 200 }
    const clock = new ManualClock(0)
    const buckets = new Buckets<number>(clock, rate)
    /** what each would have if none was forgotten */
    const plain = new Map<number, Bucket>()
    for (let step = 0; step < 20_000; step++) {
      clock.advance(random.int(20))
      const key = Math.floor(1000 * random.fraction() ** 2)
      const before = buckets.size
      const bucket = buckets.of(key)
      if (buckets.size < before) {
        const keys = [...plain.keys()].filter((one) => one !== key)
        const kept = keys.filter((one) => buckets.known(one))
        const most = Math.max(...kept.map((one) => (buckets.known(one) as Bucket).units))
        const forgotten = keys.filter((one) => !buckets.known(one) && (plain.get(one) as Bucket).units < most - 1e-6)
        t.strictSame(forgotten, [])
        for (const one of keys) if (!buckets.known(one)) plain.delete(one)
      }
      if (!plain.has(key)) plain.set(key, new Bucket(clock, rate))
      const units = random.int(4)
      const [waitMs, plainMs] = [bucket.take(units), (plain.get(key) as Bucket).take(units)]
      if (Math.abs(waitMs - plainMs) > 1e-3) t.fail(`step ${step}: ${waitMs} and not ${plainMs} ms`)
      if (buckets.size > rate.maxKeys) t.fail(`${buckets.size} are kept`)
    }
    t.ok(plain.size > 100, `${plain.size} keys`)
  },
)
