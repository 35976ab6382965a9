import { Duplex } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'
import { KasSessions, type KasSessionsComponents } from '../../../../src/agentk/tunnels/kas-sessions.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const log = pino({ level: 'silent' })
const never = new AbortController().signal

/** A connection that reads everything and answers nothing. */
function silent(): Duplex {
  return new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() })
}

/** Starts sessions at a kas that answers nothing; each dial succeeds. */
async function start(t: Test, more: Partial<KasSessionsComponents> = {}) {
  const clock = new ManualClock()
  const dialled: Duplex[] = []
  const dial = async () => {
    const duplex = silent()
    dialled.push(duplex)
    return duplex
  }
  const sessions = new KasSessions(
    { dial, log, clock, random: () => 0.5, ...more },
    { address: parseKasAddress('grpc://kas'), userAgent: 'test' },
  )
  await sessions.start()
  t.teardown(() => sessions.stop())
  await settle()
  return { clock, dialled, sessions }
}

t.test('a connection that was taken but never says anything is left after 10 s', async (t) => {
  const { clock, dialled, sessions } = await start(t)
  t.equal(dialled.length, 1)
  await clock.pass(9999)
  t.notOk(dialled[0]?.destroyed)
  await clock.pass(1)
  await settle()
  t.ok(dialled[0]?.destroyed)
  t.equal(dialled.length, 2, 'the next one is dialled at once')
  t.ok(sessions.connected)
})

t.test('a PING after a second brings out what a front has kept back', async (t) => {
  const written: Buffer[] = []
  const dial = async () =>
    new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        written.push(chunk)
        done()
      },
    })
  const { clock } = await start(t, { dial })
  const pings = () => Buffer.concat(written).indexOf(Buffer.from([0, 0, 8, 6, 0])) // length 8, type PING, no ACK
  await clock.pass(999)
  await settle()
  t.equal(pings(), -1)
  await clock.pass(1)
  await settle()
  t.not(pings(), -1)
})

t.test('with another way to go: a failed dial is the end, of which the owner is told once', async (t) => {
  let lost = 0
  let dials = 0
  const { clock, sessions } = await start(t, {
    dial: async () => {
      dials += 1
      throw new Error('refused')
    },
    endsWhenLost: () => true,
    onLost: () => {
      lost += 1
    },
  })
  await clock.pass(600_000)
  t.strictSame([lost, dials], [1, 1])
  const waiting = sessions.session(never)
  await sessions.stop()
  await t.rejects(waiting, { code: 'CANCELLED' }, 'who still waited is told by its end')
})

t.test('with another way to go: so is a lost connection', async (t) => {
  let lost = 0
  const { clock, dialled, sessions } = await start(t, {
    endsWhenLost: () => true,
    onLost: () => {
      lost += 1
    },
  })
  dialled[0]?.destroy()
  await clock.pass(600_000)
  t.strictSame([lost, dialled.length, sessions.connected], [1, 1, false])
})

t.test('there is another way to go since a while: kas is dialled again before, and then it is the end', async (t) => {
  let isLast = true
  let lost = 0
  const { clock, dialled, sessions } = await start(t, {
    endsWhenLost: () => !isLast,
    onLost: () => {
      lost += 1
    },
  })
  dialled[0]?.destroy()
  await clock.pass(1000)
  t.strictSame([lost, dialled.length, sessions.connected], [0, 2, true])
  isLast = false
  dialled[1]?.destroy()
  await clock.pass(600_000)
  t.strictSame([lost, dialled.length, sessions.connected], [1, 2, false])
})
