import t from 'tap'
import { FailedMoves } from '../../../../src/agentk/tunnels/failed-moves.ts'
import { MovingClock } from '../moving-clock.ts'

t.test('a name is left alone for its time, then that is told', async (t) => {
  const clock = new MovingClock()
  const told: number[] = []
  const moves = new FailedMoves(clock, () => told.push(clock.now()))
  const begin = clock.now()
  moves.add('kas-0', 1000)
  moves.add('kas-0', 2000)
  moves.add('kas-1', 500)
  t.ok(moves.has('kas-0') && moves.has('kas-1') && !moves.has('kas-2'))
  await clock.advance(1999)
  t.ok(moves.has('kas-0'))
  t.notOk(moves.has('kas-1'))
  await clock.advance(1)
  t.notOk(moves.has('kas-0'))
  t.strictSame(told, [begin + 500, begin + 2000])
})

t.test('bounded; cleared, it leaves nothing behind', async (t) => {
  const clock = new MovingClock()
  const moves = new FailedMoves(clock, () => t.fail('told'))
  for (let i = 0; i < 101; i++) moves.add(`kas-${i}`, 1000)
  t.equal(clock.pending.length, 100)
  t.notOk(moves.has('kas-0'))
  t.ok(moves.has('kas-100'))
  moves.clear()
  t.strictSame(clock.pending, [])
})
