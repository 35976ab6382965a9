import t from 'tap'
import { Interned } from '../../../../../../src/agentk/modules/views/store/interned.ts'

t.test('equal values become one', async (t) => {
  const interned = new Interned()
  const one = interned.value({ uid: '1', name: 'web' })
  t.equal(interned.value({ uid: '1', name: 'web' }), one)
  t.not(interned.value({ uid: '2', name: 'web' }), one)
  const labels = (value: string) => new Map([['app', value]])
  const of = (value: string) => interned.value(labels(value), [...labels(value)])
  t.equal(of('web'), of('web'))
  t.not(of('web'), of('api'))
  t.same(of('api'), labels('api'))
})

t.test('values that share a hash stay what they are', async (t) => {
  const interned = new Interned()
  const [one, other] = [interned.value(['one'], 'same'), interned.value(['other'], 'same')]
  t.same([one, other], [['one'], ['other']])
  t.equal(interned.value(['other'], 'same'), other)
})

t.test('at twice its size it is swept: what lives stays the same', async (t) => {
  const interned = new Interned()
  const kept = Array.from({ length: 10_000 }, (_, i) => interned.value([interned.text(`text ${i}`)]))
  t.ok(interned.isFull)
  interned.sweep(new Set(kept.flatMap((value) => [value, ...value])))
  const live = interned.size
  t.ok(live > 19_900 && live <= 20_000, 'but for those that shared a hash')
  t.notOk(interned.isFull)
  for (let i = 0; !interned.isFull; i++) interned.text(`more ${i}`)
  t.equal(interned.size, 2 * live)
  interned.sweep(new Set(kept.slice(0, 10).flatMap((value) => [value, ...value])))
  t.equal(interned.size, 20)
  t.equal(interned.value(['text 3']), kept[3])
  interned.sweep(new Set())
  t.equal(interned.size, 0)
  for (let i = 0; i < 10_000; i++) interned.text(`small ${i}`)
  t.notOk(interned.isFull, 'a small one is left alone')
})
