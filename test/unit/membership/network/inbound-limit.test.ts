import t from 'tap'
import { InboundLimit, inboundBounds } from '../../../../src/membership/network/inbound-limit.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const { pendingPerAddress, pendingOfStrangers, pendingPerMember, perSecond } = inboundBounds

t.test('strangers are counted by address and together; listed addresses have their own places', async (t) => {
  const limit = new InboundLimit(new ManualClock())
  const admitted = (host: string, count: number, listed = false) =>
    Array.from({ length: count }, () => limit.admit(host, listed)).filter((done) => done !== undefined)
  t.equal(admitted('10.0.0.1', 30).length, pendingPerAddress)
  let strangers = pendingPerAddress
  for (let i = 2; i < 100; i++) strangers += admitted(`10.0.0.${i}`, 10).length
  t.equal(strangers, pendingOfStrangers)
  t.equal(admitted('10.0.0.1', 120, true).length, 120, 'the same address, once it is listed')
  t.equal(admitted('10.0.1.1', 2000, true).length, pendingPerMember)
})

t.test('a place is free again once, however often it is told', async (t) => {
  const limit = new InboundLimit(new ManualClock())
  const places = Array.from({ length: pendingPerAddress }, () => limit.admit('10.0.0.1', false))
  t.equal(limit.admit('10.0.0.1', false), undefined)
  places[0]?.()
  places[0]?.()
  t.type(limit.admit('10.0.0.1', false), 'function')
  t.equal(limit.admit('10.0.0.1', false), undefined)
})

t.test('a stranger that fails quickly and often waits for the next second', async (t) => {
  const clock = new ManualClock()
  const limit = new InboundLimit(clock)
  for (let i = 0; i < perSecond; i++) limit.admit('10.0.0.1', false)?.()
  t.equal(limit.admit('10.0.0.1', false), undefined)
  t.type(limit.admit('10.0.0.1', true), 'function')
  clock.advance(1000)
  t.type(limit.admit('10.0.0.1', false), 'function')
  limit.stop()
  t.equal(clock.pending, 0)
})
