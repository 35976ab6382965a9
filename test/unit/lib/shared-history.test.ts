import t from 'tap'
import { SharedHistory } from '../../../src/lib/shared-history.ts'

interface Item {
  readonly source: string
  readonly number: number
  readonly weight: number
}

function start(maxWeight: number) {
  const kept = new Set<Item>()
  const losses: Item[] = []
  const history = new SharedHistory<Item>({
    maxWeight,
    weightOf: ({ weight }) => weight,
    lost: (item) => {
      kept.delete(item)
      losses.push(item)
    },
  })
  let number = 0
  const add = (source: string, weight = 1) => {
    const item = { source, number: ++number, weight }
    kept.add(item)
    history.add(item)
    return item
  }
  const numbers = (source: string) => [...kept].flatMap((item) => (item.source === source ? item.number : []))
  return { history, kept, losses, add, numbers }
}

t.test('a source that is alone has all of the room, and loses its oldest', async (t) => {
  const { add, numbers } = start(3)
  for (let i = 0; i < 5; i++) add('a')
  t.strictSame(numbers('a'), [3, 4, 5])
})

t.test('a crowd of one costs others nothing', async (t) => {
  const { add, numbers } = start(10)
  for (let i = 0; i < 3; i++) add('a')
  add('b')
  for (let i = 0; i < 1000; i++) add('crowd')
  t.strictSame([numbers('a'), numbers('b')], [[1, 2, 3], [4]])
  t.strictSame(numbers('crowd'), [999, 1000, 1001, 1002, 1003, 1004])
})

t.test('whoever comes later gets an equal part of what a crowd has', async (t) => {
  const { add, numbers } = start(10)
  for (let i = 0; i < 10; i++) add('crowd')
  for (let i = 0; i < 10; i++) add('a')
  t.strictSame([numbers('crowd').length, numbers('a').length], [5, 5])
})

t.test('at any time the source that has most loses, by weight, and never more than is needed', async (t) => {
  const { add, kept, losses, history } = start(100)
  const sum = (source?: string) =>
    [...kept].reduce((all, item) => all + (source === undefined || item.source === source ? item.weight : 0), 0)
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2 ** 31
    return seed % below
  }
  for (let i = 0; i < 3000; i++) {
    const before = new Map([...new Set([...kept].map(({ source }) => source))].map((source) => [source, sum(source)]))
    const item = add(`${random(6)}`, 1 + random(7))
    before.set(item.source, (before.get(item.source) ?? 0) + item.weight)
    for (const lost of losses.splice(0)) {
      t.equal(before.get(lost.source), Math.max(...before.values()), `${i}`)
      before.set(lost.source, (before.get(lost.source) ?? 0) - lost.weight)
      t.ok([...before.values()].reduce((one, other) => one + other, 0) + lost.weight > 100)
    }
    t.ok(sum() <= 100)
    const [first] = kept
    if (first && random(5) === 0) {
      kept.delete(first)
      history.delete(first)
    }
  }
})
