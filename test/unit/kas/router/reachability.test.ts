import t from 'tap'
import { defaultReachability, Reachability } from '../../../../src/kas/router/reachability.ts'

const { roundMs, suspectMs, silentRounds } = defaultReachability

t.test('an answer in time keeps it reachable; one PING is outstanding at the most', async (t) => {
  const reachability = new Reachability()
  let now = 0
  for (let round = 0; round < 10; round++, now += roundMs) {
    t.ok(reachability.round(now), 'the last one was answered')
    reachability.heard()
    t.notOk(reachability.isSuspect(now + roundMs))
  }
  t.ok(reachability.round(now))
  t.notOk(reachability.round(now + roundMs), 'the last one was not')
})

t.test('silence makes it suspect, then unreachable, and a sign of life makes it reachable', async (t) => {
  const reachability = new Reachability()
  reachability.round(0)
  t.notOk(reachability.isSuspect(suspectMs - 1))
  t.ok(reachability.isSuspect(suspectMs))
  for (let round = 1; round < silentRounds; round++) {
    reachability.round(round * roundMs)
    t.notOk(reachability.isUnreachable)
  }
  reachability.round(silentRounds * roundMs)
  t.ok(reachability.isUnreachable)
  reachability.heard()
  t.notOk(reachability.isUnreachable)
  t.notOk(reachability.isSuspect(1e6))
})

t.test('a stall of our own is not held against it', async (t) => {
  const reachability = new Reachability()
  reachability.round(0)
  const stallMs = 5000
  reachability.round(roundMs + stallMs)
  t.notOk(reachability.isSuspect(roundMs + stallMs), 'what it was late is not counted')
  t.ok(reachability.isSuspect(suspectMs + stallMs), 'the rest is')
  for (let round = 2; round < 10; round++) reachability.round(round * (roundMs + stallMs))
  t.notOk(reachability.isUnreachable)
})
