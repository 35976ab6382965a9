import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Election, type Leases } from '../../../../src/agentk/election/election.ts'
import type { LeaseRecord } from '../../../../src/agentk/election/leader-rule.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const log = pino({ level: 'silent' })

/** One lease as the API server keeps it. */
class LeaseStore implements Leases {
  lease: LeaseRecord | undefined
  down = false
  #version = 0

  async read(): Promise<LeaseRecord | undefined> {
    if (this.down) throw new Error('away')
    return this.lease
  }

  async write(
    _: string,
    next: Omit<LeaseRecord, 'resourceVersion'>,
    known: LeaseRecord | undefined,
  ): Promise<LeaseRecord | undefined> {
    if (this.down) throw new Error('away')
    if (known?.resourceVersion !== this.lease?.resourceVersion) return undefined
    this.#version += 1
    this.lease = { ...next, resourceVersion: String(this.#version) }
    return this.lease
  }
}

function candidate(t: Test, identity: string, leases: Leases, clock: ManualClock) {
  const now = () => ({ monotonic: clock.now(), wall: clock.now() })
  const election = new Election({ leases, log, clock, random: () => 0, now }, { identity })
  t.teardown(() => election.stop())
  return election
}

t.test('one of two leads; when it leaves the other follows at its next round', async (t) => {
  const clock = new ManualClock()
  const leases = new LeaseStore()
  const [a, b] = [candidate(t, 'a', leases, clock), candidate(t, 'b', leases, clock)]
  a.begin('lock')
  a.begin('lock') // a second call changes nothing
  await settle()
  b.begin('lock')
  await clock.pass(60_000)
  t.ok(a.holds())
  t.notOk(b.holds())
  t.equal(b.leader, 'a')
  await a.stop()
  t.notOk(a.holds())
  t.equal(leases.lease?.holder, '')
  await clock.pass(2000)
  t.ok(b.holds())
  t.equal(leases.lease?.transitions, 1)
})

t.test('never two that act, none for at most 20 s, when the leader loses the API server', async (t) => {
  const clock = new ManualClock()
  const leases = new LeaseStore()
  const away = { read: () => Promise.reject(new Error('away')), write: () => Promise.reject(new Error('away')) }
  let cut = false
  const own: Leases = {
    read: () => (cut ? away.read() : leases.read()),
    write: (name, next, known) => (cut ? away.write() : leases.write(name, next, known)),
  }
  const [a, b] = [candidate(t, 'a', own, clock), candidate(t, 'b', leases, clock)]
  let notices = 0
  a.onChange(() => (notices += 1))
  a.begin('lock')
  await settle()
  b.begin('lock')
  await clock.pass(10_000)
  t.equal(notices, 1)
  cut = true
  let without = 0
  for (let ms = 0; ms < 30_000; ms += 100) {
    await clock.pass(100)
    if (a.holds() && b.holds()) t.fail('two lead')
    if (!a.holds() && !b.holds()) without += 100
  }
  t.ok(b.holds())
  t.ok(without <= 20_000, `${without} ms without a leader`)
  t.equal(notices, 2, 'the end of the term is told')
})

t.test('a leader that was frozen does not act when it thaws', async (t) => {
  const leases = new LeaseStore()
  const [frozen, running] = [new ManualClock(), new ManualClock()]
  const [a, b] = [candidate(t, 'a', leases, frozen), candidate(t, 'b', leases, running)]
  a.begin('lock')
  await settle()
  b.begin('lock')
  await running.pass(30_000) // the clock of a stands still, and so does a
  t.ok(b.holds())
  frozen.freeze(30_000)
  t.notOk(a.holds(), 'before anything else of it has run')
  await frozen.pass(5000)
  t.notOk(a.holds())
  t.equal(a.leader, 'b')
})

t.test('two that begin at once: the slower one loses', async (t) => {
  const clock = new ManualClock()
  const leases = new LeaseStore()
  const [a, b] = [candidate(t, 'a', leases, clock), candidate(t, 'b', leases, clock)]
  a.begin('lock')
  b.begin('lock')
  await settle()
  t.equal([a, b].filter((each) => each.holds()).length, 1)
})

t.test('the next step is told once, and again once it is another', async (t) => {
  const clock = new ManualClock()
  const { log: captured, lines } = capturedLog()
  let step: string | undefined = 'make the Namespace'
  const fail = () => Promise.reject(new Error('not found'))
  const leases: Leases = { read: fail, write: fail, nextStep: () => step }
  const election = new Election({ leases, log: captured, clock, random: () => 0 }, { identity: 'a' })
  t.teardown(() => election.stop())
  election.begin('lock')
  await clock.pass(20_000)
  const line = { level: 'warn', lease: 'lock', msg: 'Cannot use the lease, trying on' }
  t.match(lines, [{ ...line, next_step: step }])
  t.equal(lines.length, 1)
  step = 'allow it in the Role'
  await clock.pass(20_000)
  step = undefined
  await clock.pass(20_000)
  t.match(lines.slice(1), [{ ...line, next_step: 'allow it in the Role' }])
  t.equal(lines.length, 2)
})
