import t from 'tap'
import { Absence } from '../../../../src/agentk/cluster/absence.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6443'), { code: 'ECONNREFUSED' })
const untrusted = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
const patienceMs = 15_000

/** Starts an API server. Each dial ends with the promise that `answer` returns. */
function start() {
  const clock = new ManualClock()
  const server = { answer: (): Promise<void> => Promise.reject(refused), dials: 0 }
  const dial = () => {
    server.dials += 1
    return server.answer()
  }
  return { clock, server, absence: new Absence({ clock, dial }, { patienceMs }) }
}

/** Fails one dial now and one more after the patience has ended. */
async function die({ clock, absence }: ReturnType<typeof start>): Promise<void> {
  absence.failed(refused)
  await clock.pass(patienceMs)
  absence.failed(refused)
}

t.test('all calls wait for one restart together, from its first failed dial on', async (t) => {
  const { clock, absence } = start()
  t.equal(absence.failed(refused), patienceMs)
  await clock.pass(10_000)
  t.equal(absence.failed(refused), 5000, 'a call that comes later has what is left')
  absence.reached()
  t.equal(absence.failed(refused), patienceMs, 'the next restart is another one')
  t.notOk(absence.isLong)
  await clock.pass(patienceMs)
  t.equal(absence.failed(refused), 0)
  t.ok(absence.isLong)
})

t.test('what no patience helps against is no absence', async (t) => {
  const { clock, absence } = start()
  t.equal(absence.failed(untrusted), 0)
  await clock.pass(patienceMs)
  t.equal(absence.failed(untrusted), 0)
  t.notOk(absence.isLong)
  t.equal(absence.explain(untrusted), untrusted)
})

t.test('a dead server: each call asks once, those at the same time together, and is told since when', async (t) => {
  const dead = start()
  const { absence, server, clock } = dead
  const since = new Date(clock.now()).toISOString()
  await die(dead)
  const calls = Array.from({ length: 50 }, () => absence.probe())
  const expected = {
    code: 'UNREACHABLE',
    message: `the API server has not answered since ${since}: connect ECONNREFUSED 127.0.0.1:6443`,
  }
  for (const call of calls) await t.rejects(call, expected)
  t.equal(server.dials, 1)
  await t.rejects(absence.probe(), expected)
  t.equal(server.dials, 2)
  t.same(clock.waits, [], 'nothing is asked while no call comes')
})

t.test('the first call after it is back goes on, and patience is whole again', async (t) => {
  const dead = start()
  await die(dead)
  await t.rejects(dead.absence.probe())
  const { promise, resolve } = Promise.withResolvers<void>()
  dead.server.answer = () => promise
  const calls = [dead.absence.probe(), dead.absence.probe()]
  resolve()
  await Promise.all(calls)
  t.notOk(dead.absence.isLong)
  t.equal(dead.absence.failed(refused), patienceMs)
})

t.test('a server that answers with something else is there', async (t) => {
  const dead = start()
  await die(dead)
  dead.server.answer = () => Promise.reject(untrusted)
  await dead.absence.probe()
  t.notOk(dead.absence.isLong, 'the call finds out by itself')
})

t.test('a dial that hangs is not waited for', async (t) => {
  const dead = start()
  await die(dead)
  dead.server.answer = () => new Promise(() => undefined)
  const call = dead.absence.probe()
  const failed = t.rejects(call, { code: 'UNREACHABLE' })
  await dead.clock.pass(5000)
  await failed
  await settle()
  t.same(dead.clock.waits, [])
})
