import t from 'tap'
import { FairTurns } from '../../../src/lib/fair-turns.ts'

const [a, b, c] = ['a', 'b', 'c']
const tooMany = () => new Error('too many wait')
const { signal } = new AbortController()

t.test('so many at once, few of one agent, in their order', async (t) => {
  const turns = new FairTurns({ maxRunning: 3, maxRunningOfSource: 2, maxWaiting: 10, tooMany })
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
  const turns = new FairTurns({ maxRunning: 1, maxWaiting: 2, tooMany })
  const end = await turns.take(a, signal)
  const [left, late] = [new AbortController(), new AbortController()]
  const waiting = turns.take(b, left.signal)
  const tooLate = turns.take(b, late.signal)
  await t.rejects(turns.take(b, signal), { message: 'too many wait' })
  left.abort(new Error('left'))
  await t.rejects(waiting, { message: 'left' })
  const third = turns.take(c, signal)
  late.abort(new Error('late'))
  end() // before the one that left could say so
  await t.rejects(tooLate, { message: 'late' })
  ;(await third)()
  ;(await turns.take(a, signal))()
  await t.rejects(turns.take(a, AbortSignal.abort(new Error('gone'))), { message: 'gone' })
})

t.test('who has waited for long has one of those taken away who have more', async (t) => {
  const turns = new FairTurns({ maxRunning: 4, maxRunningOfSource: 3, maxWaiting: 10, tooMany })
  const running = new Map<string, () => void>()
  const reclaimed: string[] = []
  const take = async (source: string, name: string, since = 0) => {
    const begun = () => ({ since, reclaim: () => reclaimed.push(name) })
    running.set(name, await turns.take(source, signal, begun))
  }
  const end = (name: string) => {
    running.get(name)?.()
    running.get(name)?.() // and not twice
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
  const turns = new FairTurns({ maxRunning: 1, maxWaiting: 4, tooMany })
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
