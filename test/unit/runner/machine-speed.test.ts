import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { currentLoad, onMachine, slownessOf, waitFactor } from '../../runner/machine-speed.ts'
import { patience } from '../../support/slowness.ts'

const cost = (wall: number, cpu: number) => ({ wall, cpu })

t.test('a machine is as slow as a known piece of work shows', async (t) => {
  t.equal(slownessOf(cost(8, 4), cost(20, 10)), 2.5)
  t.equal(slownessOf(cost(8, 4), cost(4, 2)), 1, 'a faster one has no less time')
  t.equal(slownessOf(cost(8, 4), cost(90, 80)), 4, 'not without end')
  t.equal(slownessOf(undefined, cost(8, 4)), 1)
  t.equal(slownessOf(cost(8, 4), undefined), 1)
  t.equal(waitFactor(1, 0.9), 1)
  t.equal(waitFactor(2, 3), 6, 'beside other programs')
  t.equal(waitFactor(4, 5), 8, 'not without end')
})

t.test('programs beside show in how long work takes', async (t) => {
  const busy = Array.from({ length: 3 * availableParallelism() }, () => new Worker('for (;;);', { eval: true }))
  t.teardown(() => Promise.all(busy.map((thread) => thread.terminate())))
  await Promise.all(busy.map((thread) => once(thread, 'online')))
  t.ok((await currentLoad()) > 2)
})

t.test('there work takes longer, and waits do not', async (t) => {
  t.strictSame(onMachine(cost(10, 0), 3), cost(10, 0))
  t.strictSame(onMachine(cost(10, 4), 3), cost(18, 12))
  t.strictSame(onMachine(cost(10, 4), 1), cost(10, 4))
})

t.test('what a test waits for is whole milliseconds on each machine', async (t) => {
  for (let times = 100; times <= 400; times++)
    t.doesNotThrow(() => AbortSignal.timeout(patience(60_000, times / 100)), `${times / 100} times`)
  t.equal(patience(1000, 1), 1000)
  t.equal(patience(1000, 2.18), 2180)
})
