import { mock } from 'node:test'
import t from 'tap'
import { backgroundClock, systemClock } from '../../../src/lib/clock.ts'

/** Longest wait of one timer of Node. ms */
const mostMs = 2 ** 31 - 1

t.test('a wait that is longer than a timer of Node lasts its whole time', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  for (const clock of [systemClock, backgroundClock]) {
    let ended = 0
    clock.after(2.5 * mostMs, () => ended++)
    const cancel = clock.after(2.5 * mostMs, () => t.fail('it was cancelled'))
    mock.timers.tick(5)
    t.equal(ended, 0)
    mock.timers.tick(mostMs - 5)
    cancel()
    mock.timers.tick(mostMs)
    t.equal(ended, 0)
    mock.timers.tick(mostMs)
    t.equal(ended, 1)
    mock.timers.tick(mostMs)
    t.equal(ended, 1, 'once')
  }
})

t.test('short waits, and none', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const ended: number[] = []
  for (const ms of [0, 5, mostMs]) systemClock.after(ms, () => ended.push(ms))
  mock.timers.tick(5)
  t.strictSame(ended, [0, 5])
  mock.timers.tick(mostMs)
  t.strictSame(ended, [0, 5, mostMs])
})
