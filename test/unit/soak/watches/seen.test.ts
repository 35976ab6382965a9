import t from 'tap'
import { Seen } from '../../../soak/watches/seen.ts'

function seen(values: readonly number[], options: { asksFirst?: boolean } = {}): Seen {
  const one = new Seen('one', options)
  for (const value of values) one.saw(value)
  return one
}

t.test('each value once, in order, up to the one that it must have seen', async (t) => {
  t.same(seen([3, 4, 5]).faults(5), [])
  t.same(seen([3, 4, 5]).faults(4), [], 'it may be ahead')
  t.same(seen([3, 5]).faults(5), ['one: 3 is followed by 5'])
  t.same(seen([3, 4, 4]).faults(4), ['one: 4 is followed by 4'])
  t.same(seen([4, 3]).faults(3), ['one: 4 is followed by 3'])
  t.same(seen([3, 4]).faults(5), ['one: it saw 4 last, of 5'])
  t.same(seen([1, 7, 8], { asksFirst: true }).faults(8), [], 'what it asked for first may be older')
})

t.test('an end is a fault, and who lists anew misses what was between', async (t) => {
  const ended = seen([3])
  ended.ended('in order')
  ended.ended('later')
  t.same(ended.faults(3), ['one: it ended: in order'])
  const listed = seen([3, 9])
  listed.lists++
  t.same(listed.faults(9), [])
  listed.begins()
  t.same(listed.faults(9), ['one: 3 is followed by 9'], 'what it needed to begin does not count')
})

t.test('a wait for a value ends with it, with the client, or with the signal', async (t) => {
  const one = seen([1])
  let isThere = false
  const waits = one.until(2, new AbortController().signal).then(() => {
    isThere = true
  })
  one.saw(2)
  await new Promise(setImmediate)
  t.equal(isThere, false, 'its watch may have told nothing but what was there')
  one.saw(3)
  await waits
  const vain = one.until(4, new AbortController().signal)
  one.ended('cut')
  await vain
  await t.rejects(seen([1]).until(2, AbortSignal.abort(new Error('late'))), { message: 'late' })
})
