import t from 'tap'
import { type Loop, LoopTurns } from '../../../src/lib/loop-turns.ts'

/** A loop whose time passes as it is told. */
class ToldLoop implements Loop {
  #active = 0
  #idle = 0
  #timers: { at: number; action: () => void }[] = []

  used = () => ({ active: this.#active, idle: this.#idle })
  after = (ms: number, action: () => void) => void this.#timers.push({ at: this.#now + ms, action })

  get #now(): number {
    return this.#active + this.#idle
  }

  busy(ms: number): void {
    this.#active += ms
    this.#fire()
  }

  idle(ms: number): void {
    for (let i = 0; i < ms; i++) {
      this.#idle++
      this.#fire()
    }
  }

  #fire(): void {
    const due = this.#timers.filter(({ at }) => at <= this.#now)
    this.#timers = this.#timers.filter(({ at }) => at > this.#now)
    for (const { action } of due) action()
  }
}

t.test('of a burst some begin in each turn, sources by turns', async (t) => {
  const loop = new ToldLoop()
  const turns = new LoopTurns(2, 100, loop)
  const begun: string[] = []
  const lost = () => t.fail('there is room for all')
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1']) turns.enter(name[0] as string, () => begun.push(name), lost)
  t.same(begun, ['a1', 'a2'], 'who comes alone does not wait')
  loop.idle(1)
  t.same(begun, ['a1', 'a2', 'a3', 'b1'])
  loop.idle(1)
  t.same(begun, ['a1', 'a2', 'a3', 'b1', 'a4'])
  loop.idle(1)
  turns.enter('c', () => begun.push('c1'), lost)
  t.equal(begun.at(-1), 'c1', 'and at once again after it was empty')
})

t.test('for one source the loop is idle for twice as long as it is busy, but no turn is 20 ms late', async (t) => {
  const loop = new ToldLoop()
  const turns = new LoopTurns(1, 100, loop)
  let begun = 0
  for (let i = 0; i < 10; i++) {
    turns.enter(
      'a',
      () => begun++,
      () => t.fail('there is room for all'),
    )
  }
  loop.busy(4)
  t.equal(begun, 1)
  loop.idle(7)
  t.equal(begun, 1)
  loop.idle(1)
  t.equal(begun, 2)
  loop.busy(19)
  t.equal(begun, 2)
  loop.busy(1)
  t.equal(begun, 3, 'by others, perhaps, who would never leave a turn')
})

t.test('many sources, such as the agents of a fleet, have all of the loop', async (t) => {
  const loop = new ToldLoop()
  const turns = new LoopTurns(1, 100, loop)
  let begun = 0
  for (const source of ['a', 'b', 'c', 'd']) {
    turns.enter(
      source,
      () => begun++,
      () => t.fail('there is room for all'),
    )
  }
  loop.busy(4)
  t.equal(begun, 2, 'three wait: no rest')
  loop.busy(4)
  t.equal(begun, 2, 'two wait: a third of the time')
  loop.idle(2)
  t.equal(begun, 3)
})

t.test('who has more than the share makes room for who has less', async (t) => {
  const loop = new ToldLoop()
  const turns = new LoopTurns(1, 4, loop)
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
  loop.idle(5)
  t.same(begun, ['a0', 'a1', 'b1', 'a2', 'a3'])
})
