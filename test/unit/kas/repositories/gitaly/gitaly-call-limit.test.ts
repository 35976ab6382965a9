import t from 'tap'
import {
  type CallQueue,
  type CallTurn,
  GitalyCallLimit,
} from '../../../../../src/kas/repositories/gitaly/gitaly-call-limit.ts'
import { ManualClock, settle } from '../../../../support/manual-clock.ts'

function limit(options: { maxWaiting?: number } = {}) {
  const clock = new ManualClock()
  const waits: [boolean, number][] = []
  const waited = (allowed: boolean, ms: number) => waits.push([allowed, ms])
  const bound = { refillPerSecond: 10, bucketSize: 3, maxWaiting: 100, ...options }
  return { clock, waits, limit: new GitalyCallLimit({ clock, waited }, bound) }
}

t.test('so many at once, then so many a second, first in first out', async (t) => {
  const { clock, waits, limit: calls } = limit()
  const begun: number[] = []
  const { signal } = new AbortController()
  for (let i = 0; i < 6; i++) void calls.enter({ queue: 'polls', source: 'a' }, signal).then(() => begun.push(i))
  await settle()
  t.strictSame(begun, [0, 1, 2])
  for (const expected of [4, 5, 6]) {
    clock.advance(100)
    await settle()
    t.equal(begun.length, expected)
  }
  t.strictSame(begun, [0, 1, 2, 3, 4, 5])
  t.strictSame(waits.at(-1), [true, 300])
  t.equal(clock.pending, 0, 'nobody waits, no timer runs')
  clock.advance(3_600_000)
  for (let i = 0; i < 4; i++) void calls.enter({ queue: 'polls', source: 'a' }, signal).then(() => begun.push(i))
  await settle()
  t.equal(begun.length, 9, 'no more than the bucket holds after a silence')
  clock.advance(100)
})

t.test('who leaves gives its turn to the next; too many are refused', async (t) => {
  const { clock, limit: calls } = limit({ maxWaiting: 2 })
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'a' }, signal)
  const left = new AbortController()
  const first = calls.enter({ queue: 'polls', source: 'a' }, left.signal)
  let second = false
  void calls.enter({ queue: 'polls', source: 'a' }, signal).then(() => {
    second = true
  })
  await t.rejects(calls.enter({ queue: 'polls', source: 'a' }, signal), { code: 'REPOSITORY_FAILED' })
  left.abort(new Error('left'))
  await t.rejects(first, { message: 'left' })
  clock.advance(100)
  await settle()
  t.ok(second)
  await t.rejects(calls.enter({ queue: 'polls', source: 'a' }, AbortSignal.abort(new Error('gone'))), {
    message: 'gone',
  })
})

t.test('who leaves as its turn comes does not lose it for the others', async (t) => {
  const { clock, limit: calls } = limit()
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'a' }, signal)
  const left = new AbortController()
  const first = calls.enter({ queue: 'polls', source: 'a' }, left.signal)
  let second = false
  void calls.enter({ queue: 'polls', source: 'a' }, signal).then(() => {
    second = true
  })
  left.signal.addEventListener('abort', () => clock.advance(100)) // runs after the listener of `enter`
  left.abort(new Error('left'))
  await first.catch(() => undefined)
  await settle()
  t.ok(second)
})

t.test('polls and pushes take turns, and fill only their own queue', async (t) => {
  const { clock, limit: calls } = limit({ maxWaiting: 20 })
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'a' }, signal)
  const begun: string[] = []
  const enter = (queue: CallQueue, name: string) =>
    void calls.enter({ queue, source: 'a' }, signal).then(() => begun.push(name))
  for (let i = 0; i < 20; i++) enter('polls', `poll ${i}`)
  await t.rejects(calls.enter({ queue: 'polls', source: 'a' }, signal), { code: 'REPOSITORY_FAILED' })
  for (let i = 0; i < 3; i++) enter('pushes', `push ${i}`)
  for (let i = 0; i < 8; i++) {
    clock.advance(100)
    await settle()
  }
  t.strictSame(
    begun,
    ['push 0', 'poll 0', 'push 1', 'poll 1', 'push 2', 'poll 2', 'poll 3', 'poll 4'],
    'a push waits for one poll at most',
  )
  t.ok(calls.inUse)
  clock.advance(10_000)
  await settle()
  t.notOk(calls.inUse)
  t.equal(clock.pending, 0)
})

t.test('who is new waits for one poll and one push at most', async (t) => {
  const { clock, limit: calls } = limit({ maxWaiting: 20 })
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'a' }, signal)
  const begun: string[] = []
  for (const queue of ['polls', 'pushes', 'arrivals'] as const)
    for (let i = 0; i < 3; i++) void calls.enter({ queue, source: 'a' }, signal).then(() => begun.push(`${queue} ${i}`))
  for (let i = 0; i < 9; i++) {
    clock.advance(100)
    await settle()
  }
  const inTurn = [0, 1, 2].flatMap((i) => [`pushes ${i}`, `arrivals ${i}`, `polls ${i}`])
  t.strictSame(begun, inTurn)
})

t.test('a poll that waits may become a push', async (t) => {
  const { clock, limit: calls } = limit({ maxWaiting: 6 })
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'a' }, signal)
  const begun: number[] = []
  const turns = [0, 1, 2, 3, 4].map((): CallTurn => ({ queue: 'polls', source: 'a' }))
  const hurry = (turn: CallTurn) => {
    turn.queue = 'pushes'
    calls.hurry(turn)
  }
  for (const [i, turn] of turns.entries()) void calls.enter(turn, signal).then(() => begun.push(i))
  for (const i of [4, 3]) hurry(turns[i] as CallTurn)
  hurry({ queue: 'polls', source: 'a' }) // this turn does not wait
  const left = new AbortController()
  const leaving: CallTurn = { queue: 'polls', source: 'a' }
  const gone = calls.enter(leaving, left.signal)
  hurry(leaving)
  left.abort(new Error('left'))
  await t.rejects(gone, { message: 'left' })
  for (let i = 0; i < 5; i++) {
    clock.advance(100)
    await settle()
  }
  t.strictSame(begun, [4, 0, 3, 1, 2])
  t.equal(clock.pending, 0)
})

t.test('tenants take turns, however many calls one of them has', async (t) => {
  for (const queue of ['polls', 'pushes'] as const) {
    const { clock, limit: calls } = limit({ maxWaiting: 300 })
    const { signal } = new AbortController()
    const begun: string[] = []
    const enter = (source: string) => void calls.enter({ queue, source }, signal).then(() => begun.push(source))
    for (let i = 0; i < 203; i++) enter('mallory') // the first three begin at once
    enter('good')
    enter('good')
    for (let i = 0; i < 4; i++) {
      clock.advance(100)
      await settle()
    }
    t.strictSame(begun.slice(3), ['mallory', 'good', 'mallory', 'good'], queue)
  }
})

t.test('who has the most calls that wait makes room for others, and gives no turn back that it had not', async (t) => {
  const { clock, limit: calls } = limit({ maxWaiting: 4 })
  const { signal } = new AbortController()
  for (let i = 0; i < 3; i++) await calls.enter({ queue: 'polls', source: 'mallory' }, signal)
  const left = new AbortController()
  const waiting = [0, 1, 2, 3].map(() => calls.enter({ queue: 'polls', source: 'mallory' }, left.signal))
  let begun = false
  void calls.enter({ queue: 'polls', source: 'good' }, signal).then(() => {
    begun = true
  })
  left.abort(new Error('left'))
  const ended = await Promise.allSettled(waiting)
  t.match(ended[3], { reason: { code: 'REPOSITORY_FAILED' } }, 'the latest of them has no place')
  t.notOk(begun, 'nobody had a turn to give back')
  clock.advance(100)
  await settle()
  t.ok(begun)
})
