import t from 'tap'
import { FairQueue } from '../../../src/lib/fair-queue.ts'

const item = (name: string) => ({ name, source: name.slice(0, 1) })

function ground(maxSize: number) {
  const queue = new FairQueue<ReturnType<typeof item>>(maxSize)
  const add = (...names: string[]) => names.map((name) => queue.add(item(name))?.name)
  const rest = () => {
    const names: string[] = []
    for (let next = queue.take(); next; next = queue.take()) names.push(next.name)
    return names
  }
  return { queue, add, rest }
}

t.test('sources take turns, each in the order in which it came', async (t) => {
  const { queue, add, rest } = ground(10)
  add('a1', 'a2', 'a3', 'b1', 'c1', 'c2')
  t.equal(queue.size, 6)
  t.strictSame(
    ['a', 'b', 'd'].map((source) => queue.sizeOf(source)),
    [3, 1, 0],
  )
  t.strictSame(rest(), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  t.equal(queue.size, 0)
  t.equal(queue.take(), undefined)
})

t.test('who comes again stands behind the others', async (t) => {
  const { queue, add, rest } = ground(10)
  add('a1', 'b1', 'b2')
  t.equal(queue.take()?.name, 'a1')
  add('a2')
  t.strictSame(rest(), ['b1', 'a2', 'b2'])
})

t.test('who leaves is there no more, and leaves once', async (t) => {
  const { queue, add, rest } = ground(10)
  const leaving = item('a2')
  add('a1')
  queue.add(leaving)
  add('b1')
  t.equal(queue.delete(leaving), true)
  t.equal(queue.delete(leaving), false)
  t.equal(queue.delete(item('z1')), false)
  t.equal(queue.size, 2)
  t.strictSame(rest(), ['a1', 'b1'])
})

t.test('where it is full, who has less than a share gets a place from who has the most', async (t) => {
  const { queue, add, rest } = ground(4)
  t.strictSame(add('a1', 'a2', 'a3', 'a4', 'a5'), [undefined, undefined, undefined, undefined, 'a5'])
  t.strictSame(add('b1', 'b2', 'b3'), ['a4', 'a3', 'b3'])
  t.strictSame(add('c1', 'd1', 'e1'), ['a2', 'b2', 'e1'])
  t.equal(queue.size, 4)
  t.strictSame(rest(), ['a1', 'b1', 'c1', 'd1'])
})

t.test('sources that may not are passed over, and keep their turn', async (t) => {
  const { queue, add } = ground(10)
  add('a1', 'a2', 'b1', 'b2')
  t.equal(queue.take((source) => source === 'b')?.name, 'b1')
  t.equal(queue.take()?.name, 'a1')
  t.equal(
    queue.take((source) => source === 'c'),
    undefined,
  )
  t.equal(queue.size, 2)
})

t.test('where items differ in weight several go for one, and nobody has more than his share', async (t) => {
  const heavy = (source: string, weight: number, name = `${source}${weight}`) => ({ source, weight, name })
  const queue = new FairQueue<ReturnType<typeof heavy>>(100, ({ weight }) => weight)
  const add = (item: ReturnType<typeof heavy>) => {
    const lost: string[] = []
    queue.place(item, ({ name }) => lost.push(name))
    return lost
  }
  for (const name of ['1', '2', '3', '4']) t.strictSame(add(heavy('a', 25, name)), [])
  t.equal(queue.hasPlace('a', 1), false)
  t.equal(queue.hasPlace('b', 50), true)
  t.strictSame(add(heavy('a', 1)), ['a1'])
  t.strictSame(add(heavy('b', 30)), ['4', '3'])
  t.strictSame(add(heavy('b', 60)), ['b60'], 'more than a share goes, and takes nobody with it')
  t.strictSame([queue.take()?.name, queue.take()?.name, queue.take()?.name], ['1', 'b30', '2'])
  t.equal(queue.take(), undefined)
  t.strictSame(add(heavy('c', 100)), [])
  t.strictSame(add(heavy('d', 101)), ['d101'])
})
