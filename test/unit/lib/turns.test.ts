import t from 'tap'
import { FairQueue, Turns } from '../../../src/lib/turns.ts'

const [a, b, c] = ['a', 'b', 'c']
const tooMany = () => new Error('too many wait')
const { signal } = new AbortController()

t.test('so many at once, few of one agent, in their order', async (t) => {
  const turns = new Turns({ maxRunning: 3, maxRunningOfSource: 2, maxWaiting: 10, tooMany })
  const begun: string[] = []
  const take = (source: string, name: string) =>
    turns.take(source, signal).then((end) => {
      begun.push(name)
      return end
    })
  const [one, two] = [await take(a, 'a1'), await take(a, 'a2')]
  const third = take(a, 'a3')
  t.equal(turns.isContended, false, 'it waits for the share of a, not for others')
  const other = await take(b, 'b1')
  const last = take(c, 'c1')
  t.equal(turns.isContended, true)
  t.strictSame(begun, ['a1', 'a2', 'b1'])
  other()
  ;(await last)()
  t.strictSame(begun, ['a1', 'a2', 'b1', 'c1'], 'the share of a is taken')
  one()
  ;(await third)()
  two()
  t.strictSame(begun, ['a1', 'a2', 'b1', 'c1', 'a3'])
})

t.test('waits are bounded, and end with their signal; a turn that came too late is handed on', async (t) => {
  const turns = new Turns({ maxRunning: 1, maxWaiting: 2, tooMany })
  const end = await turns.take(a, signal)
  const [left, late] = [new AbortController(), new AbortController()]
  const waiting = turns.take(b, left.signal)
  const tooLate = turns.take(b, late.signal)
  await t.rejects(turns.take(b, signal), { message: 'too many wait' })
  left.abort(new Error('left'))
  await t.rejects(waiting, { message: 'left' })
  const third = turns.take(c, signal)
  late.abort(new Error('late'))
  end() // before the rejection of the one that left is seen
  await t.rejects(tooLate, { message: 'late' })
  ;(await third)()
  ;(await turns.take(a, signal))()
  await t.rejects(turns.take(a, AbortSignal.abort(new Error('gone'))), { message: 'gone' })
})

t.test('who has waited for long has one of those taken away who have more', async (t) => {
  const turns = new Turns({ maxRunning: 4, maxRunningOfSource: 3, maxWaiting: 10, tooMany })
  const running = new Map<string, () => void>()
  const reclaimed: string[] = []
  const take = async (source: string, name: string, since = 0) => {
    const begun = () => ({ since, reclaim: () => reclaimed.push(name) })
    running.set(name, await turns.take(source, signal, begun))
  }
  const end = (name: string) => {
    running.get(name)?.()
    running.get(name)?.() // a second call changes nothing
  }
  for (const [source, name] of [
    [a, 'a1'],
    [b, 'b1'],
    [a, 'a2'],
  ] as const)
    await take(source, name)
  turns.reclaim(c, 0)
  t.strictSame(reclaimed, [], 'there is room')
  await take(a, 'a3', 5)
  const fourth = take(a, 'a4')
  turns.reclaim(a, 9)
  t.strictSame(reclaimed.splice(0), [], 'it has its share')
  const first = take(c, 'c1', 9)
  turns.reclaim(c, -1)
  t.strictSame(reclaimed.splice(0), ['a1'], 'the longest of who has most, whenever it began')
  end('a1')
  await first
  t.notOk(running.has('a4'), 'it is for whom it was taken, though others waited before')
  turns.reclaim(a, 9)
  t.strictSame(reclaimed.splice(0), [], 'nobody has more')
  const last = take('d', 'd1', 9)
  turns.reclaim('d', -1)
  t.strictSame(reclaimed.splice(0), ['a2'], 'two are more than one')
  turns.reclaim('d', -1)
  t.strictSame(reclaimed.splice(0), [], 'it has one by now, as they have')
  turns.reclaim('e', 0)
  t.strictSame(reclaimed.splice(0), ['b1'], 'each has one: the longest of those that have lasted')
  end('a2')
  await last
  end('b1')
  await fourth
  t.strictSame([...running.keys()], ['a1', 'b1', 'a2', 'a3', 'c1', 'd1', 'a4'], 'whom it was taken for had left')
})

t.test('agents take turns, and share the places where they are scarce', async (t) => {
  const turns = new Turns({ maxRunning: 1, maxWaiting: 4, tooMany })
  const begun: string[] = []
  const take = (source: string, name: string) =>
    turns.take(source, signal).then(
      (end) => {
        begun.push(name)
        end()
      },
      (error: Error) => void begun.push(`${name}: ${error.message}`),
    )
  const end = await turns.take(a, signal)
  const crowd = ['b1', 'b2', 'b3', 'b4'].map((name) => take(b, name))
  const other = take(c, 'c1')
  await crowd[3]
  t.match(begun, ['b4: too many wait'], 'the latest of who has the most makes room')
  end()
  await Promise.all([...crowd, other])
  t.strictSame(begun.slice(1), ['b1', 'c1', 'b2', 'b3'])
})

const item = (name: string) => ({ name, source: name.slice(0, 1) })

function queueGround(maxSize: number) {
  const queue = new FairQueue<ReturnType<typeof item>>(maxSize)
  const add = (...names: string[]) => names.map((name) => queue.add(item(name))?.name)
  const rest = () => {
    const names: string[] = []
    for (let next = queue.take(); next; next = queue.take()) names.push(next.name)
    return names
  }
  return { queue, add, rest }
}

t.test('queue: sources take turns, each in the order in which it came', async (t) => {
  const { queue, add, rest } = queueGround(10)
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

t.test('queue: who comes again stands behind the others', async (t) => {
  const { queue, add, rest } = queueGround(10)
  add('a1', 'b1', 'b2')
  t.equal(queue.take()?.name, 'a1')
  add('a2')
  t.strictSame(rest(), ['b1', 'a2', 'b2'])
})

t.test('queue: who leaves is there no more, and leaves once', async (t) => {
  const { queue, add, rest } = queueGround(10)
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

t.test('queue: where it is full, who has less than a share gets a place from who has the most', async (t) => {
  const { queue, add, rest } = queueGround(4)
  t.strictSame(add('a1', 'a2', 'a3', 'a4', 'a5'), [undefined, undefined, undefined, undefined, 'a5'])
  t.strictSame(add('b1', 'b2', 'b3'), ['a4', 'a3', 'b3'])
  t.strictSame(add('c1', 'd1', 'e1'), ['a2', 'b2', 'e1'])
  t.equal(queue.size, 4)
  t.strictSame(rest(), ['a1', 'b1', 'c1', 'd1'])
})

t.test('queue: sources that may not are passed over, and keep their turn', async (t) => {
  const { queue, add } = queueGround(10)
  add('a1', 'a2', 'b1', 'b2')
  t.equal(queue.take((source) => source === 'b')?.name, 'b1')
  t.equal(queue.take()?.name, 'a1')
  t.equal(
    queue.take((source) => source === 'c'),
    undefined,
  )
  t.equal(queue.size, 2)
})

t.test('queue: where items differ in weight several go for one, and nobody has more than his share', async (t) => {
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

t.test('queue: of one source, whosever turn it is', async (t) => {
  const { queue, add, rest } = queueGround(10)
  add('a1', 'b1', 'b2', 'c1')
  t.equal(queue.takeOf('b')?.name, 'b1')
  t.equal(queue.takeOf('d'), undefined)
  t.strictSame(rest(), ['a1', 'c1', 'b2'], 'it stands behind the others then')
})

t.test('a bound of waits for each source alone, and of its turns', async (t) => {
  const turns = new Turns<string>({ maxRunningOfSource: 1, maxWaitingOfSource: 1, tooMany })
  const [one, other] = [await turns.take(a, signal), await turns.take(b, signal)]
  const waiting = turns.take(a, signal)
  await t.rejects(turns.take(a, signal), { message: 'too many wait' })
  const others = turns.take(b, signal)
  t.equal(turns.isContended, false, 'each waits for itself')
  other()
  ;(await others)()
  one()
  ;(await waiting)()
  ;(await turns.take(a, signal))()
})

t.test('work ends its turn, also where it fails', async (t) => {
  const turns = new Turns<string>({ maxRunning: 1, tooMany })
  const first = Promise.withResolvers<void>()
  const running = turns.run(a, signal, () => first.promise)
  const failing = turns.run(b, signal, () => Promise.reject(new Error('no')))
  const last = turns.run(c, signal, async () => 1)
  first.resolve()
  await running
  await t.rejects(failing, { message: 'no' })
  t.equal(await last, 1)
})

t.test('an idle turn goes first, though its source has no more than others', async (t) => {
  const turns = new Turns({ maxRunning: 2, maxWaiting: 10, tooMany })
  const reclaimed: string[] = []
  const take = async (source: string, isIdle: () => boolean) =>
    await turns.take(source, signal, () => ({ since: 0, isIdle, reclaim: () => reclaimed.push(source) }))
  let isIdle = false
  const [endA, endB] = [await take(a, () => false), await take(b, () => isIdle)]
  const waiting = take(c, () => false)
  turns.reclaim(c, -1)
  t.strictSame(reclaimed, [], 'none has more than its share, or lasts for long')
  isIdle = true
  turns.reclaim(c, -1)
  turns.reclaim(c, -1)
  t.strictSame(reclaimed, [b], 'once')
  endB()
  ;(await waiting)()
  endA()
})
