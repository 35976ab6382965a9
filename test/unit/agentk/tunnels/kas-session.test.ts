import { Duplex } from 'node:stream'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { parseKasAddress } from '../../../../src/agentk/tunnels/kas-address.ts'
import { KasLink, type KasLinkComponents } from '../../../../src/agentk/tunnels/kas-session.ts'
import { MovingClock, settle } from '../moving-clock.ts'

const log = pino({ level: 'silent' })
const never = new AbortController().signal

/** Takes what is written, says nothing. */
function silent(): Duplex {
  return new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() })
}

/** A link whose dials all succeed, at a kas that says nothing. */
async function start(t: Test, more: Partial<KasLinkComponents> = {}) {
  const clock = new MovingClock()
  const dialled: Duplex[] = []
  const dial = async () => {
    const duplex = silent()
    dialled.push(duplex)
    return duplex
  }
  const link = new KasLink(
    { dial, log, clock, random: () => 0.5, ...more },
    { address: parseKasAddress('grpc://kas'), userAgent: 'test' },
  )
  await link.start()
  t.teardown(() => link.stop())
  await settle()
  return { clock, dialled, link }
}

t.test('a connection that was taken but never says anything is left after 10 s', async (t) => {
  const { clock, dialled, link } = await start(t)
  t.equal(dialled.length, 1)
  await clock.advance(9999)
  t.notOk(dialled[0]?.destroyed)
  await clock.advance(1)
  await settle()
  t.ok(dialled[0]?.destroyed)
  t.equal(dialled.length, 2, 'the next one is dialled at once')
  t.ok(link.connected)
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
  await clock.advance(999)
  await settle()
  t.equal(pings(), -1)
  await clock.advance(1)
  await settle()
  t.not(pings(), -1)
})

t.test('with another way to go: a failed dial ends the link, which is told once', async (t) => {
  let over = 0
  let dials = 0
  const { clock, link } = await start(t, {
    dial: async () => {
      dials += 1
      throw new Error('refused')
    },
    onOver: () => {
      over += 1
    },
  })
  await clock.advance(600_000)
  t.strictSame([over, dials], [1, 1])
  const waiting = link.session(never)
  await link.stop()
  await t.rejects(waiting, { code: 'CANCELLED' }, 'who still waited is told by its end')
})

t.test('with another way to go: a lost connection ends it, too', async (t) => {
  let over = 0
  const { clock, dialled, link } = await start(t, {
    onOver: () => {
      over += 1
    },
  })
  dialled[0]?.destroy()
  await clock.advance(600_000)
  t.strictSame([over, dialled.length, link.connected], [1, 1, false])
})
