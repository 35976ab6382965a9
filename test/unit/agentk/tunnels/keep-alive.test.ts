import t from 'tap'
import { KeepAlive } from '../../../../src/agentk/tunnels/keep-alive.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const times = { intervalMs: 5000, answerMs: 5000 }

function watched(answers: () => boolean) {
  const session = {
    bytesRead: 0,
    pings: 0,
    destroyed: false,
    ping: () => {
      session.pings += 1
      return answers() ? Promise.resolve() : new Promise(() => undefined)
    },
    destroy: () => {
      session.destroyed = true
    },
  }
  return session
}

// wire: agentk.ping
t.test('a peer that answers lives', async (t) => {
  const clock = new ManualClock()
  const session = watched(() => true)
  new KeepAlive(session, { times, clock }).start()
  await clock.pass(60_000)
  t.notOk(session.destroyed)
  t.ok(session.pings >= 11)
})

t.test('a peer that falls silent is left within two intervals', async (t) => {
  const clock = new ManualClock()
  let frozen = false
  const session = watched(() => !frozen)
  new KeepAlive(session, { times, clock }).start()
  await clock.pass(12_000)
  frozen = true
  await clock.pass(9999)
  t.ok(session.destroyed)
  t.same(clock.waits, [])
})

t.test('a busy peer that falls silent is left within two intervals', async (t) => {
  const clock = new ManualClock()
  let frozen = false
  const session = watched(() => !frozen)
  new KeepAlive(session, { times, clock }).start()
  for (let i = 0; i < 12; i++) {
    session.bytesRead += 1
    await clock.pass(1000)
  }
  frozen = true
  await clock.pass(9999)
  t.ok(session.destroyed)
})

t.test('bytes are a sign of life, also while a PING has no answer', async (t) => {
  const clock = new ManualClock()
  const session = watched(() => false)
  new KeepAlive(session, { times, clock }).start()
  for (let i = 0; i < 10; i++) {
    session.bytesRead += 1
    await clock.pass(4000)
  }
  t.ok(session.pings <= 8, 'no more often than each interval')
  t.notOk(session.destroyed)
})

t.test('a late loop of our own proves nothing', async (t) => {
  const clock = new ManualClock()
  const session = watched(() => false)
  new KeepAlive(session, { times, clock }).start()
  await clock.pass(5000)
  clock.freeze(60_000) // this process was frozen; the answer waits unread
  await clock.pass(0)
  t.notOk(session.destroyed)
  session.bytesRead += 8
  await clock.pass(5000)
  t.notOk(session.destroyed)
})

t.test('stopped, it does nothing more', async (t) => {
  const clock = new ManualClock()
  const answer = Promise.withResolvers<void>()
  const session = { ...watched(() => true), ping: () => answer.promise }
  const keepAlive = new KeepAlive(session, { times, clock })
  keepAlive.start()
  await clock.pass(5000)
  keepAlive.stop()
  answer.resolve()
  await clock.pass(60_000)
  t.same(clock.waits, [])
})
