import t from 'tap'
import { homeOf } from '../../../src/ring/home.ts'
import { Ring } from '../../../src/ring/ring.ts'

const keys = Array.from({ length: 2000 }, (_, i) => String(i + 1))
const five = ['kas-0', 'kas-1', 'kas-2', 'kas-3', 'kas-4']

t.test('no name and one name', async (t) => {
  t.strictSame(Ring.of([]).rank('42'), [])
  t.strictSame(Ring.of(['kas-0']).rank('42'), ['kas-0'])
})

t.test('a rank names each once, whatever the order and history of the names', async (t) => {
  const ring = Ring.of(five)
  for (const other of [[...five].reverse(), [...five, ...five], ['kas-3', 'kas-1', 'kas-0', 'kas-4', 'kas-2']]) {
    const same = Ring.of(other)
    t.strictSame(
      keys.map((key) => same.rank(key)),
      keys.map((key) => ring.rank(key)),
    )
  }
  t.strictSame([...ring.rank('42')].sort(), five)
  t.equal(ring.rank('42'), ring.rank('42'), 'and is remembered')
})

t.test('names with dots, digits and addresses are names', async (t) => {
  const names = ['10.0.0.7', 'kas.example.com', 'a', '7', 'KAS_1']
  t.strictSame([...Ring.of(names).rank('x')].sort(), [...names].sort())
})

t.test('first places are spread', async (t) => {
  const ring = Ring.of(five)
  const counts = new Map<string, number>()
  for (const key of keys) {
    const [first = ''] = ring.rank(key)
    counts.set(first, (counts.get(first) ?? 0) + 1)
  }
  for (const count of counts.values()) t.ok(count > 250 && count < 570, String(count))
})

t.test('a name that goes moves only its own keys, each to the second of its rank', async (t) => {
  const before = Ring.of(five)
  const after = Ring.of(five.filter((name) => name !== 'kas-2'))
  const expected = keys.map((key) => before.rank(key).find((name) => name !== 'kas-2'))
  t.strictSame(
    keys.map((key) => after.rank(key)[0]),
    expected,
  )
})

t.test('the home of a pod', async (t) => {
  const rank = ['kas-1', 'kas-0', 'kas-2']
  t.equal(homeOf([], ['a'], 'a'), undefined)
  t.strictSame(homeOf(['kas-0'], ['a', 'b'], 'b'), { home: 'kas-0' }, 'no standby where there is no second replica')
  t.strictSame(homeOf(rank, ['a', 'b'], 'a'), { home: 'kas-1', standby: 'kas-0' })
  t.strictSame(homeOf(rank, ['a', 'b'], 'b'), { home: 'kas-0', standby: 'kas-2' })
  t.strictSame(homeOf(rank, ['a', 'b', 'c', 'd'], 'd'), { home: 'kas-1', standby: 'kas-0' }, 'round and round')
  t.strictSame(homeOf(rank, ['a'], 'b'), homeOf(rank, ['a', 'b'], 'b'), 'also if it is not listed yet')
})
