import t from 'tap'
import { ProjectTurns, type Turn } from '../../../../src/kas/agent-config/project-turns.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const signal = new AbortController().signal
const owner = (id: bigint, group = `group-${id}`) => ({ id, path: `${group}/sub/project-${id}` })

function start(options = {}) {
  const clock = new ManualClock()
  const turns = new ProjectTurns(clock, { burstMs: 100, ...options })
  const begun: string[] = []
  const take = async (project: bigint, name: string, group = `group-${project}`): Promise<Turn> => {
    const turn = await turns.take(owner(project, group), { signal })
    begun.push(turn.hadToWait ? `${name} waited` : name)
    return turn
  }
  return { clock, turns, begun, take }
}

t.test('one turn of a project at a time, and none of another waits for it', async (t) => {
  const { take, begun, clock } = start()
  const first = await take(1n, 'a')
  const second = take(1n, 'b')
  const third = take(1n, 'c')
  ;(await take(2n, 'other')).end(0)
  t.same(begun, ['a', 'other'])
  first.end(0)
  ;(await second).end(0)
  ;(await third).end(0)
  t.same(begun, ['a', 'other', 'b waited', 'c waited'])
  t.equal(clock.pending, 0)
})

t.test('a project that took more than its burst rests until it has had a tenth of the time', async (t) => {
  const { take, begun, clock } = start()
  ;(await take(1n, 'a')).end(60)
  ;(await take(1n, 'b')).end(60) // 1200 ms for both; 1000 ms of it may come at once
  const third = take(1n, 'c')
  clock.advance(199)
  await settle()
  t.same(begun, ['a', 'b'])
  clock.advance(1)
  await third
  t.same(begun, ['a', 'b', 'c waited'])
  ;(await third).end(0.3)
  clock.advance(1010)
  t.equal(clock.pending, 0, 'what has rested is forgotten')
})

t.test('in the long run it has a tenth of the time, however often it asks', async (t) => {
  const { turns, clock } = start()
  const ended = new AbortController()
  let took = 0
  const loop = (async () => {
    for (;;) {
      const turn = await turns.take(owner(1n), ended)
      took += 400
      clock.advance(400)
      turn.end(400)
    }
  })().catch(() => undefined)
  const began = clock.now()
  for (let i = 0; i < 1000; i++) {
    clock.advance(100)
    await settle()
  }
  ended.abort()
  await loop
  t.ok(took <= (clock.now() - began) / 10 + 500, `${took} of ${clock.now() - began} ms`)
  t.ok(took > (clock.now() - began) / 12, 'and not less')
})

t.test('turns at once are bounded, whose ever they are', async (t) => {
  const { take, begun } = start({ maxTurns: 2 })
  const [one] = [await take(1n, 'one'), await take(2n, 'two')]
  const three = take(3n, 'three')
  await settle()
  t.same(begun, ['one', 'two'])
  one.end(0)
  await three
  t.same(begun, ['one', 'two', 'three waited'])
})

t.test('a root group has a few turns at once, however many projects it has', async (t) => {
  const { take, begun, turns, clock } = start({ maxTurnsOfGroup: 2 })
  const mine = [await take(1n, 'one', 'Evil'), await take(2n, 'two', 'evil')]
  const three = take(3n, 'three', 'evil')
  ;(await take(4n, 'other', 'evil-not')).end(0)
  t.same(begun, ['one', 'two', 'other'])
  mine[0]?.end(0)
  mine.push(await three)
  t.same(begun, ['one', 'two', 'other', 'three waited'])
  for (const turn of mine.slice(1)) turn.end(0)
  for (const id of [5n, 6n]) (await take(id, `${id}`, 'evil')).end(0)
  t.same(begun.slice(4), ['5', '6'], 'no turn was lost')
  turns.stop()
  t.equal(clock.pending, 0)
})

t.test('who leaves the wait hands on what had come', async (t) => {
  const { turns, take } = start()
  const first = await take(1n, 'a')
  const leaving = new AbortController()
  const left = turns.take(owner(1n), leaving)
  const next = take(1n, 'c')
  first.end(0)
  leaving.abort(new Error('left'))
  await Promise.allSettled([left])
  const turn = await left.catch(() => undefined)
  turn?.end(0)
  t.equal((await next).hadToWait, true)
})

t.test('who has to wait knows it before it waits', async (t) => {
  const { turns } = start()
  const waited: string[] = []
  const take = (name: string) => turns.take(owner(1n), { signal, waits: () => waited.push(name) })
  const first = await take('first')
  const second = take('second')
  t.strictSame(waited, ['second'])
  first.end(0)
  ;(await second).end(0)
  t.strictSame(waited, ['second'])
  turns.stop()
})
