import t from 'tap'
import { FailedMoves } from '../../../../src/agentk/tunnels/failed-moves.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const options = { retryMs: 60_000, unansweredMs: 2000, againMs: 500, unansweredAgainMs: 1000, lostMs: 1000 }
const random = () => 0.5
const here = { answered: true }
const nowhere = { answered: false }

t.test('a move is left alone for its time, then that is told', async (t) => {
  const clock = new ManualClock()
  const told: number[] = []
  const moves = new FailedMoves({ clock, random, onExpired: () => told.push(clock.now()) }, options)
  const begin = clock.now()
  moves.lost('kas-0')
  moves.add('home', 'kas-0', nowhere)
  moves.add('home', 'kas-1', here)
  t.ok(moves.has('home', 'kas-0') && moves.has('standby', 'kas-0') && moves.has('home', 'kas-1'))
  t.notOk(moves.has('standby', 'kas-1') || moves.has('better standby', 'kas-0') || moves.has('home', 'kas-2'))
  await clock.pass(1999)
  t.ok(moves.has('home', 'kas-0'))
  t.notOk(moves.has('standby', 'kas-0'))
  await clock.pass(1)
  t.notOk(moves.has('home', 'kas-0'))
  t.ok(moves.has('home', 'kas-1'))
  await clock.pass(58_000)
  t.strictSame(told, [begin + 1000, begin + 2000, begin + 60_000])
})

t.test('while there is no standby it is tried less and less often, until one is found', async (t) => {
  const clock = new ManualClock()
  const moves = new FailedMoves({ clock, random, onExpired: () => undefined }, options)
  const waits: (number | undefined)[] = []
  const fail = async (answered: boolean) => {
    moves.add('standby', 'kas-0', { answered })
    waits.push(clock.waits[0])
    await clock.pass(options.unansweredMs)
  }
  for (const answered of [true, true, true, true]) await fail(answered)
  moves.found()
  await fail(true)
  t.strictSame(waits.splice(0), [500, 1000, 2000, 2000, 500])
  moves.found()
  for (const answered of [false, false, true]) await fail(answered)
  t.strictSame(waits, [1000, 2000, 2000], 'one that does not answer is left alone for longer')
  moves.add('better standby', 'kas-0', nowhere)
  t.strictSame(clock.waits, [60_000], 'a better one is none that is lacking')
  for (const name of ['kas-0', 'kas-1']) moves.add('standby', name, nowhere)
  moves.again()
  t.notOk(moves.has('standby', 'kas-0') || moves.has('standby', 'kas-1'))
  await fail(true)
  t.equal(waits.at(-1), 500, 'one that was there is gone')
  moves.clear()
})

t.test('a replica that leaves is left alone for as long as one that was lost', async (t) => {
  const clock = new ManualClock()
  const moves = new FailedMoves({ clock, random, onExpired: () => undefined }, options)
  for (const move of ['home', 'standby', 'better standby'] as const) moves.leaves(move, 'kas-0')
  t.strictSame(clock.waits, [1000, 1000, 1000])
  moves.clear()
})

t.test('each wait is up to a quarter shorter or longer', async (t) => {
  const clock = new ManualClock()
  const waits = [0, 0.25, 1].map((drawn) => {
    const moves = new FailedMoves({ clock, random: () => drawn, onExpired: () => undefined }, options)
    moves.lost('kas-0')
    const own = clock.waits
    moves.clear()
    return own
  })
  t.strictSame(waits, [
    [750, 750],
    [875, 875],
    [1250, 1250],
  ])
})

t.test('bounded; cleared, it leaves nothing behind', async (t) => {
  const clock = new ManualClock()
  const moves = new FailedMoves({ clock, random, onExpired: () => t.fail('told') }, options)
  for (let i = 0; i < 101; i++) moves.add('home', `kas-${i}`, here)
  t.equal(clock.waits.length, 100)
  t.notOk(moves.has('home', 'kas-0'))
  t.ok(moves.has('home', 'kas-100'))
  moves.clear()
  t.strictSame(clock.waits, [])
})
