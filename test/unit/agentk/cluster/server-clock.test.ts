import t from 'tap'
import { ServerClock } from '../../../../src/agentk/cluster/server-clock.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const hour = 3_600_000

function start() {
  const machine = new ManualClock()
  const clock = new ServerClock(machine)
  /** Passes on an answer of a server whose clock is `aheadMs` ahead. */
  const answer = (aheadMs: number, waitedMs = 20) =>
    clock.answered(new Date(machine.now() + aheadMs - waitedMs / 2).toUTCString(), waitedMs)
  return { machine, clock, answer, ahead: () => clock.now() - machine.now() }
}

t.test('a machine that is an hour behind has the time of the server, to the second', async (t) => {
  for (const aheadMs of [hour, -hour, 5000]) {
    const { machine, answer, ahead } = start()
    for (let i = 0; i < 40; i++) {
      answer(aheadMs)
      t.ok(Math.abs(ahead() - aheadMs) <= 1020, `${aheadMs}: ${ahead()}`)
      machine.advance(1337)
    }
    t.ok(Math.abs(ahead() - aheadMs) < 100, 'the more answers, the nearer')
  }
})

t.test('its times are whole, also where an answer came after a fraction of a millisecond', async (t) => {
  for (const aheadMs of [hour, -hour, -1500]) {
    const { clock, answer } = start()
    for (const waitedMs of [0.25, 1017.631, 20]) {
      answer(aheadMs, waitedMs)
      t.ok(Number.isInteger(clock.now()), `${aheadMs}, ${waitedMs}: ${clock.now()}`)
    }
  }
})

t.test('one that is right stays as it is, also by answers that were long in coming', async (t) => {
  const { machine, answer, ahead } = start()
  for (let i = 0; i < 40; i++) {
    answer(0, i % 2 === 0 ? 20 : 30_000)
    machine.advance(777)
    t.equal(ahead(), 0)
  }
})

t.test('what is no time says nothing; timers are those of the machine', async (t) => {
  const { machine, clock, ahead } = start()
  for (const date of ['', 'yesterday', '\u0000']) clock.answered(date, 5)
  t.equal(ahead(), 0)
  let isCalled = false
  clock.after(100, () => {
    isCalled = true
  })
  machine.advance(100)
  t.ok(isCalled)
})
