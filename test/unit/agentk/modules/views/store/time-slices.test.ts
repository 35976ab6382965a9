import t from 'tap'
import { sliceMs, TimeSlices } from '../../../../../../src/agentk/modules/views/store/time-slices.ts'
import { WorkClock } from '../../../../../support/work-clock.ts'

function stage() {
  const clock = new WorkClock()
  const turns = new TimeSlices(clock)
  const done: string[] = []
  const work = (name: string, source: string, steps: number, ms = 1, areLong = false) => {
    let left = steps
    const step = () => {
      clock.work(ms)
      left--
      return left > 0
    }
    return turns.run(source, step, () => done.push(name), { areLong })
  }
  return { clock, turns, work, done }
}

t.test('what is short is done at once, as long as nobody waits', async (t) => {
  const { work, done, turns } = stage()
  work('one', 'ann', 2)
  work('two', 'ann', 2)
  t.strictSame(done, ['one', 'two'])
  t.equal(turns.size, 0)
})

t.test('what is done at once takes a part of the time, however short each is', async (t) => {
  const { clock, work, done, turns } = stage()
  for (let i = 0; i < 100; i++) work(`${i}`, 'ann', 1)
  t.ok(done.length <= 2 * sliceMs + 1, `${done.length} at once`)
  t.equal(turns.size, 100 - done.length)
  while (turns.size > 0) clock.turn()
  t.equal(done.length, 100)
})

t.test('sources take turns, whatever each asks for', async (t) => {
  const { clock, work, done } = stage()
  for (let i = 0; i < 300; i++) work(`mallory ${i}`, 'mallory', 100)
  clock.turn()
  work('bob', 'bob', 1)
  work('carl', 'carl', 20)
  for (let rounds = 0; !done.includes('carl') && rounds < 20; rounds++) clock.turn()
  t.match(done, ['bob', 'carl'])
  t.ok(clock.longestMs <= 2 * sliceMs + 16, `${clock.longestMs} ms without a yield`)
})

t.test('of long steps each is the last of its slice', async (t) => {
  const { clock, work, done } = stage()
  work('mallory', 'mallory', 100, 60, true)
  work('bob', 'bob', 1)
  clock.turn()
  clock.turn()
  t.strictSame(done, ['bob'])
  t.ok(clock.longestMs <= 60 + sliceMs, `${clock.longestMs} ms without a yield`)
})

t.test('so do the jobs of one source', async (t) => {
  const { clock, work, done } = stage()
  work('long', 'ann', 1000)
  work('short', 'ann', 1)
  for (let i = 0; i < 3; i++) clock.turn()
  t.strictSame(done, ['short'])
})

t.test('what is ended is done no more, whenever that is', async (t) => {
  const { clock, work, done, turns } = stage()
  const end = work('one', 'ann', 1000)
  const endOther = work('other', 'ann', 100)
  turns.run(
    'ann',
    () => {
      endOther()
      return false
    },
    () => done.push('ends the other'),
  )
  clock.turn()
  end()
  for (let i = 0; i < 20; i++) clock.turn()
  t.strictSame(done, ['ends the other'])
  t.equal(turns.size, 0)
})

t.test('what is asked for within a slice is a part of it', async (t) => {
  const { work, done, turns } = stage()
  turns.run(
    'ann',
    () => {
      work('inner', 'ann', 2)
      work('long', 'ann', 100)
      t.strictSame(done, ['inner'])
      return false
    },
    () => done.push('outer'),
  )
  t.strictSame(done, ['inner', 'outer'])
  t.equal(turns.size, 1)
})
