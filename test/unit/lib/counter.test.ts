import t from 'tap'
import { Counter } from '../../../src/lib/counter.ts'
import { Seeded } from '../../support/seeded.ts'

t.test('so many of a key, and of all; what is left is there for others', async (t) => {
  const open = new Counter<string>({ maxOfKey: 2, max: 3 })
  const leave = open.enter('a')
  t.ok(open.enter('a'))
  t.equal(open.enter('a'), undefined, 'it has its own')
  t.equal(open.enter('b', 2), undefined, 'there is room for one')
  t.ok(open.enter('b'))
  t.equal(open.enter('c'), undefined)
  leave?.()
  leave?.()
  t.strictSame(
    [...open.counts],
    [
      ['a', 1],
      ['b', 1],
    ],
  )
  t.equal(open.total, 2, 'left once')
  t.ok(open.enter('c'))
})

t.test('who has the most, and nothing below none', async (t) => {
  const bytes = new Counter<string>()
  t.equal(bytes.most(), undefined)
  t.strictSame([bytes.add('a', 5), bytes.add('b', 7), bytes.add('a', 3)], [5, 7, 8])
  t.equal(bytes.most(), 'a')
  t.strictSame([bytes.add('a', -9), bytes.of('a'), bytes.total], [0, 0, 7])
  bytes.delete('b')
  bytes.delete('c')
  t.strictSame([bytes.total, bytes.counts.size], [0, 0])
})

t.test(
  '1,000 keys come and go: it is what was entered and not left, within its limits, and nothing at the end',
  async (t) => {
    const random = Seeded.for(t)
    const limits = { maxOfKey: 1 + random.int(20), max: 1 + random.int(5000) }
    const counter = new Counter<number>(limits)
    /** entries that are counted now */
    const inside: { readonly key: number; readonly by: number; readonly leave: () => void }[] = []
    const sumOf = (key?: number) =>
      inside.reduce((sum, one) => sum + (key === undefined || one.key === key ? one.by : 0), 0)
    for (let step = 0; step < 20_000; step++) {
      const key = Math.floor(1000 * random.fraction() ** 3) // some keys come more often
      if (random.chance(step < 10_000 ? 0.4 : 0.6) && inside.length > 0) {
        const [one] = inside.splice(random.int(inside.length), 1)
        one?.leave()
        if (random.chance(0.1)) one?.leave()
      } else {
        const by = 1 + random.int(5)
        const leave = counter.enter(key, by)
        const isRoom = sumOf(key) + by <= limits.maxOfKey && sumOf() + by <= limits.max
        if (isRoom !== (leave !== undefined)) t.fail(`step ${step}: room for ${by} of ${key}: ${isRoom}`)
        if (leave) inside.push({ key, by, leave })
      }
      if (step % 100 > 0) continue
      const sums = new Map<number, number>()
      for (const one of inside) sums.set(one.key, (sums.get(one.key) ?? 0) + one.by)
      const byKey = (counts: ReadonlyMap<number, number>) => [...counts].sort(([one], [other]) => one - other)
      t.strictSame(byKey(counter.counts), byKey(sums))
      t.equal(counter.total, sumOf())
      t.equal(sums.get(counter.most() ?? -1) ?? 0, Math.max(0, ...sums.values()))
    }
    for (const { leave } of inside.splice(0)) leave()
    t.strictSame([counter.counts.size, counter.total, counter.most()], [0, 0, undefined])
  },
)
