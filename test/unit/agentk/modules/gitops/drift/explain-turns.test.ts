import t from 'tap'
import { ExplainTurns } from '../../../../../../src/agentk/modules/gitops/drift/explain-turns.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

t.test('20 explanations a second, and sources take turns', async (t) => {
  const clock = new ManualClock()
  const turns = new ExplainTurns(clock)
  const order: string[] = []
  const [greedy, modest] = [{}, {}]
  const add = (source: object, name: string) =>
    turns.add({ source, run: async () => void order.push(name), onLost: () => t.fail('nothing is lost') })
  for (let i = 0; i < 100; i++) add(greedy, 'greedy')
  add(modest, 'modest')
  await clock.pass(0)
  t.equal(order.length, 20, 'the burst')
  await clock.pass(100)
  t.ok(order.includes('modest'), 'the modest source does not wait for all of the greedy one')
  await clock.pass(900)
  t.ok(order.length >= 39 && order.length <= 41, `about 20 in a second: ${order.length}`)
  turns.leave(greedy)
  await clock.pass(10_000)
  t.ok(order.length <= 41, 'a source that has left has no more')
})

t.test('four at once', async (t) => {
  const clock = new ManualClock()
  const turns = new ExplainTurns(clock)
  const ends: (() => void)[] = []
  let running = 0
  for (let i = 0; i < 6; i++) {
    const run = async () => {
      running += 1
      await new Promise<void>((resolve) => ends.push(resolve))
      running -= 1
    }
    turns.add({ source: {}, run, onLost: () => t.fail('nothing is lost') })
  }
  await clock.pass(0)
  t.equal(running, 4)
  ends[0]?.()
  await clock.pass(0)
  t.equal(ends.length, 5, 'the next one begins once one has ended')
  for (const end of ends) end()
  await clock.pass(0)
  for (const end of ends) end()
})

t.test('a busy API server is asked less often', async (t) => {
  for (const [tookMs, least, most] of [
    [10, 95, 105], // 20 a second
    [100, 15, 18], // one in 300 ms
    [60_000, 4, 8], // at most a second of rest for each
  ] as const) {
    const clock = new ManualClock()
    const turns = new ExplainTurns(clock)
    let ended = 0
    const run = async () => {
      await new Promise<void>((resolve) => clock.after(tookMs, resolve))
      ended += 1
    }
    const add = () => turns.add({ source: {}, run, onLost: () => t.fail('nothing is lost') })
    for (let i = 0; i < 1000; i++) add()
    await clock.pass(tookMs * 20) // the burst, and what follows from it
    const before = ended
    await clock.pass(Math.max(5000, tookMs))
    const count = ended - before
    t.ok(count >= least && count <= most, `${tookMs} ms each: ${count} in the time`)
  }
})
