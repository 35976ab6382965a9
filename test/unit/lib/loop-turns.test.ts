import t from 'tap'
import { LoopTurns } from '../../../src/lib/loop-turns.ts'
import { settle } from '../../support/manual-clock.ts'

t.test('of a burst some begin in each turn of the event loop, sources by turns', async (t) => {
  const turns = new LoopTurns(2, 100)
  const begun: string[] = []
  const lost = () => t.fail('there is room for all')
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1']) turns.enter(name[0] as string, () => begun.push(name), lost)
  t.same(begun, ['a1', 'a2'], 'who comes alone does not wait')
  await settle()
  t.same(begun, ['a1', 'a2', 'a3', 'b1'])
  await settle()
  t.same(begun, ['a1', 'a2', 'a3', 'b1', 'a4'])
  await settle()
  turns.enter('c', () => begun.push('c1'), lost)
  await settle()
  t.equal(begun.at(-1), 'c1', 'and again after it was empty')
})

t.test('who has more than the share makes room for who has less', async (t) => {
  const turns = new LoopTurns(1, 4)
  const begun: string[] = []
  const lost: string[] = []
  const enter = (name: string) =>
    turns.enter(
      name[0] as string,
      () => begun.push(name),
      () => lost.push(name),
    )
  for (const name of ['a0', 'a1', 'a2', 'a3', 'a4', 'a5', 'b1']) enter(name)
  t.same(lost, ['a5', 'a4'])
  for (let i = 0; i < 5; i++) await settle()
  t.same(begun, ['a0', 'a1', 'b1', 'a2', 'a3'])
})

t.test('who leaves is not begun, and takes no turn', async (t) => {
  const turns = new LoopTurns(1, 100)
  const begun: string[] = []
  const lost = () => t.fail('there is room for all')
  const enter = (name: string) => turns.enter('a', () => begun.push(name), lost)
  t.equal(enter('first'), undefined, 'it has begun')
  const leave = enter('second')
  enter('third')
  leave?.()
  await settle()
  t.same(begun, ['first', 'third'])
  leave?.()
})

t.test('who comes in the midst of a turn stands behind those that wait', async (t) => {
  const turns = new LoopTurns(2, 100)
  const begun: string[] = []
  const lost = () => t.fail('there is room for all')
  const enter = (name: string, then?: () => void) =>
    turns.enter(
      'a',
      () => {
        begun.push(name)
        then?.()
      },
      lost,
    )
  for (const name of ['1', '2']) enter(name)
  enter('3', () => enter('late'))
  for (const name of ['4', '5']) enter(name)
  await settle()
  await settle()
  t.same(begun, ['1', '2', '3', '4', '5', 'late'])
})

t.test('what waits gives way to others, but not for ever', async (t) => {
  const turns = new LoopTurns(1, 100)
  let begun = 0
  const lost = () => t.fail('there is room for all')
  const enter = () => turns.enter('a', () => begun++, lost)
  turns.giveWay()
  for (let i = 0; i < 4; i++) enter()
  t.equal(begun, 1, 'nothing waited that could give way')
  turns.giveWay()
  await settle()
  t.equal(begun, 1)
  await settle()
  t.equal(begun, 2, 'for one turn only')
  let given = 0
  for (; begun === 2 && given < 100; given++) {
    turns.giveWay()
    await settle()
  }
  t.equal(given, 17, 'the one after 16 that were given is taken')
  turns.giveWay()
  await settle()
  t.equal(begun, 3, 'then others are first again')
  await settle()
  t.equal(begun, 4)
})

t.test('who is left after others gave way begins no more than its number in a turn', async (t) => {
  const turns = new LoopTurns(1, 100)
  let begun = 0
  const lost = () => t.fail('there is room for all')
  const enter = () => turns.enter('a', () => begun++, lost)
  enter()
  const leave = enter()
  turns.giveWay()
  await settle()
  leave?.()
  for (let i = 0; i < 4; i++) enter()
  t.equal(begun, 2)
  await settle()
  t.equal(begun, 3)
  await settle()
  t.equal(begun, 4)
})
