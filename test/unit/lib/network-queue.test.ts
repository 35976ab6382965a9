import t from 'tap'
import { NetworkQueue } from '../../../src/lib/network-queue.ts'
import { type Source, SourceHistory, sourceOf } from '../../../src/lib/source-history.ts'

interface Item extends Source {
  readonly name: string
}

const item = (name: string): Item => ({ ...sourceOf(name), name })
const create = (maxSize: number) => {
  const history = new SourceHistory(() => 0)
  return { history, queue: new NetworkQueue<Item>(maxSize, history) }
}
const takeAll = (queue: NetworkQueue<Item>) => {
  const names: string[] = []
  for (let next = queue.take(); next; next = queue.take()) {
    names.push(next.name)
    queue.charge(next, 1)
  }
  return names
}

t.test('networks take turns, and in each its addresses do', async (t) => {
  const { queue } = create(100)
  for (const name of ['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.1.1', '10.0.1.1']) {
    queue.add(item(name))
  }
  t.same(takeAll(queue), ['10.0.0.1', '10.0.1.1', '10.0.0.2', '10.0.1.1', '10.0.0.3', '10.0.0.1', '10.0.0.1'])
})

t.test('a network that took less lately comes first, also once it has waited for less long', async (t) => {
  const { history, queue } = create(100)
  history.charge('10.0.0', 5, 2)
  for (const name of ['10.0.0.1', '10.0.1.1', '10.0.2.1']) queue.add(item(name))
  t.same(takeAll(queue), ['10.0.1.1', '10.0.2.1', '10.0.0.1'])
})

t.test('the latest of the address with most, in the network with most, makes room', async (t) => {
  const { queue } = create(4)
  for (const name of ['10.0.0.1', '10.0.0.1', '10.0.0.2', '10.0.1.1']) t.equal(queue.add(item(name)), undefined)
  t.match(queue.add(item('10.0.2.1')), { name: '10.0.0.1' })
  t.equal(queue.size, 4)
  t.equal(queue.sizeOf(item('10.0.0.1')), 1)
})

t.test('of networks with as many the one that asked for more makes room, and else who comes last', async (t) => {
  const { history, queue } = create(2)
  for (const network of ['10.0.0', '10.0.1', '10.0.1']) history.ask(network)
  for (const name of ['10.0.0.1', '10.0.1.1']) queue.add(item(name))
  t.match(queue.add(item('10.0.2.1')), { name: '10.0.1.1' })
  t.match(queue.add(item('10.0.3.1')), { name: '10.0.0.1' })
  t.match(queue.add(item('10.0.4.1')), { name: '10.0.4.1' })
})

t.test('who was let in is known for a day, and of so many addresses the latest', async (t) => {
  let now = 0
  const history = new SourceHistory(() => now)
  history.letIn(sourceOf('10.0.0.1'))
  t.equal(history.wasLetIn(sourceOf('10.0.0.1')), true)
  t.equal(history.wasLetIn(sourceOf('10.0.0.2')), false)
  now = 25 * 3_600_000
  t.equal(history.wasLetIn(sourceOf('10.0.0.1')), false)
  for (let i = 0; i <= 16_384; i++) history.letIn(sourceOf(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`))
  t.equal(history.wasLetIn(sourceOf('10.0.0.0')), false, 'the oldest made room')
  t.equal(history.wasLetIn(sourceOf('10.0.0.1')), true)
})
