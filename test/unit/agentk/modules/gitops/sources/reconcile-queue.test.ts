import t, { type Test } from 'tap'
import { type Next, ReconcileQueue } from '../../../../../../src/agentk/modules/gitops/sources/reconcile-queue.ts'
import { eventually } from '../../../../../support/eventually.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

/** Starts a queue with one source. The test ends each round. */
function start(t: Test) {
  const clock = new ManualClock()
  const queue = new ReconcileQueue<object>({ clock, random: () => 0 })
  const ended = new AbortController()
  const key = {}
  const rounds: PromiseWithResolvers<Next>[] = []
  const round = () => {
    const own = Promise.withResolvers<Next>()
    rounds.push(own)
    return own.promise
  }
  const run = queue.run(key, round, ended.signal)
  t.teardown(async () => {
    ended.abort(new Error('the test is over'))
    for (const one of rounds) one.resolve('idle')
    await run
  })
  const end = async (next: Next) => {
    rounds.at(-1)?.resolve(next)
    await eventually(() => queue.stateOf(key) !== 'reconciling')
  }
  const begun = (count: number) => eventually(() => rounds.length === count)
  return { queue, key, clock, rounds, end, begun, run, ended }
}

t.test('what comes while a round runs is one more round, and never two at a time', async (t) => {
  const { queue, key, rounds, begun } = start(t)
  t.equal(queue.stateOf(key), 'waitingForFiles')
  queue.add(key)
  await begun(1)
  t.equal(queue.stateOf(key), 'reconciling')
  for (let i = 0; i < 5; i++) queue.add(key)
  await new Promise(setImmediate)
  t.equal(rounds.length, 1)
  rounds[0]?.resolve('idle')
  await begun(2)
  rounds[1]?.resolve('idle')
  await eventually(() => queue.stateOf(key) === 'idle')
  t.equal(rounds.length, 2)
})

t.test('a round that fails is made again, later each time, and at once where something new comes', async (t) => {
  const { queue, key, clock, rounds, end, begun, run, ended } = start(t)
  queue.add(key)
  await begun(1)
  await end('backoff')
  clock.advance(4999)
  await new Promise(setImmediate)
  t.equal(rounds.length, 1)
  clock.advance(1)
  await begun(2)
  await end('backoff')
  clock.advance(5000)
  await new Promise(setImmediate)
  t.equal(rounds.length, 2, 'the second pause is longer')
  queue.add(key)
  await begun(3)
  await end('idle')
  queue.add(key)
  await begun(4)
  await end('backoff')
  clock.advance(5000)
  await begun(5)
  ended.abort(new Error('the test is over'))
  await end('idle')
  await run
  t.equal(clock.pending, 0)
})

t.test('something new, such as a commit, begins the pauses anew', async (t) => {
  const { queue, key, clock, rounds, end, begun } = start(t)
  queue.add(key)
  for (let round = 1; round <= 4; round++) {
    await begun(round)
    await end('backoff')
    clock.advance(300_000)
  }
  await begun(5)
  queue.add(key, { isNew: true })
  rounds.at(-1)?.resolve('backoff')
  await begun(6)
  await end('backoff')
  clock.advance(5000)
  await begun(7)
  t.equal(rounds.length, 7)
})

t.test('what waits for others is decided anew when their claims change, also while it was being decided', async (t) => {
  const { queue, key, rounds, end, begun } = start(t)
  queue.add(key)
  await begun(1)
  await end('waitingForOthers')
  queue.othersChanged(key)
  await new Promise(setImmediate)
  t.equal(rounds.length, 1, 'its own claim is no news to itself')
  queue.othersChanged({})
  await begun(2)
  queue.othersChanged()
  rounds[1]?.resolve('waitingForOthers')
  await begun(3)
  rounds[2]?.resolve('idle')
  await eventually(() => queue.stateOf(key) === 'idle')
  queue.othersChanged()
  await new Promise(setImmediate)
  t.equal(rounds.length, 3, 'what has nothing to do waits for nobody')
})

t.test('what is not run gets no round, and what throws ends', async (t) => {
  const clock = new ManualClock()
  const queue = new ReconcileQueue<object>({ clock, random: () => 0 })
  const key = {}
  queue.add(key)
  t.equal(queue.stateOf(key), undefined)
  const run = queue.run(key, () => Promise.reject(new Error('another one has its name')), new AbortController().signal)
  queue.add(key)
  await t.rejects(run, /another one has its name/)
  t.equal(queue.stateOf(key), undefined)
})
