import t from 'tap'
import { defaultReachability, Reachability } from '../../../../src/kas/peers/reachability.ts'

const { roundMs, suspectMs, unreachableMs, lostMs } = defaultReachability

/** Checks `count` rounds in time, without an answer. @returns time of the last check */
function unansweredRounds(reachability: Reachability, from: number, count: number): number {
  const to = from + count * roundMs
  for (let now = from + roundMs; now <= to; now += roundMs) reachability.check(now, now)
  return to
}

t.test('an answer in time keeps it reachable; one PING is outstanding at the most', async (t) => {
  const reachability = new Reachability()
  let now = 0
  for (let round = 0; round < 10; round++, now += roundMs) {
    t.ok(reachability.check(now, now), 'the last one was answered')
    reachability.received()
    t.notOk(reachability.isSuspect(now + roundMs))
  }
  t.ok(reachability.check(now, now))
  t.notOk(reachability.check(now + roundMs, now + roundMs), 'the last one was not')
})

t.test('silence makes it suspect, unreachable, lost, and a sign of life makes it reachable', async (t) => {
  const reachability = new Reachability()
  reachability.check(0, 0)
  t.notOk(reachability.isSuspect(suspectMs - 1))
  t.ok(reachability.isSuspect(suspectMs))
  let now = unansweredRounds(reachability, 0, 2)
  t.notOk(reachability.isUnreachable)
  now = unansweredRounds(reachability, now, 1)
  t.ok(reachability.isUnreachable)
  now = unansweredRounds(reachability, now, (lostMs - now) / roundMs - 1)
  t.notOk(reachability.isLost)
  now = unansweredRounds(reachability, now, 1)
  t.ok(reachability.isLost)
  reachability.received()
  t.notOk(reachability.isUnreachable)
  t.notOk(reachability.isLost)
  t.notOk(reachability.isSuspect(1e6))
})

t.test('looks may come at any distance: what counts is time', async (t) => {
  const reachability = new Reachability()
  reachability.check(0, 0)
  let now = 0
  while (!reachability.isUnreachable) {
    now += 50
    reachability.check(now, now)
  }
  t.equal(now, defaultReachability.unreachableMs)
})

t.test('a stall of our own is not held against it', async (t) => {
  const reachability = new Reachability()
  reachability.check(0, 0)
  const stallMs = 5000
  let now = roundMs + stallMs
  reachability.check(now, roundMs)
  t.notOk(reachability.isSuspect(now), 'what it was late is not counted')
  t.ok(reachability.isSuspect(now + suspectMs), 'what follows is')
  for (let round = 0; round < 10; round++) {
    reachability.received() // messages of the stall are read after it
    reachability.check(now + roundMs, now + roundMs)
    reachability.check(now + 2 * roundMs + stallMs, now + 2 * roundMs)
    now += 2 * roundMs + stallMs
    t.notOk(reachability.isUnreachable)
  }
})

t.test('who is always late sees silence too: what had come was read after each look', async (t) => {
  const reachability = new Reachability()
  const lateMs = 10 * roundMs
  let now = 0
  let checks = 0
  const checkLate = () => {
    now += roundMs + lateMs
    checks++
    reachability.check(now, now - lateMs)
  }
  reachability.check(0, 0)
  while (!reachability.isUnreachable && checks < 1000) checkLate()
  t.equal(checks, 1 + Math.ceil(unreachableMs / roundMs), 'a round for each check, counted by the next one')
  while (!reachability.isLost && checks < 1000) checkLate()
  t.equal(checks, 1 + Math.ceil(lostMs / roundMs))
})
