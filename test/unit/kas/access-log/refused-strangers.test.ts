import t from 'tap'
import { maxStrangers, type Refused, RefusedStrangers } from '../../../../src/kas/access-log/refused-strangers.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function ground() {
  const clock = new ManualClock(0)
  const told: (Pick<Refused, 'address' | 'reason'> & { count: number; since: number })[] = []
  const write = ({ address, reason }: Refused, count: number, since: number) =>
    void told.push({ address, reason, count, since })
  const strangers = new RefusedStrangers({ clock, write })
  const add = (address: string, reason = 'USER_UNAUTHORIZED') => strangers.add({ event: 'refused', reason, address })
  return { clock, told, strangers, add }
}

t.test('the first of an address at once, the others of a minute with their number', async (t) => {
  const { clock, told, add } = ground()
  t.equal(add('10.0.0.1'), true)
  clock.advance(10_000)
  for (let i = 0; i < 99; i++) t.equal(add('10.0.0.1', i === 98 ? 'BAD_REQUEST' : undefined), false)
  t.equal(add('10.0.0.2'), true)
  clock.advance(50_000)
  t.strictSame(told, [{ address: '10.0.0.1', reason: 'BAD_REQUEST', count: 99, since: 10_000 }])
  clock.advance(60_000)
  t.equal(told.length, 1)
  t.equal(clock.pending, 0, 'who is silent is forgotten')
  t.equal(add('10.0.0.1'), true)
})

t.test('who has a network of IPv6 has all its addresses', async (t) => {
  const { add } = ground()
  t.equal(add('2001:db8::1'), true)
  t.equal(add('2001:db8::ffff'), false)
  t.equal(add('2001:db8:0:1::1'), true)
})

t.test('beyond a thousand addresses in a minute the others are one', async (t) => {
  const { clock, told, add } = ground()
  for (let i = 0; i < maxStrangers; i++) t.equal(add(`10.0.${i >> 8}.${i & 255}`), true)
  for (let i = 0; i < 500; i++) t.equal(add(`10.1.${i >> 8}.${i & 255}`), false)
  t.equal(clock.pending, maxStrangers + 1)
  clock.advance(60_000)
  t.strictSame(told, [{ address: 'others', reason: 'USER_UNAUTHORIZED', count: 500, since: 0 }])
})

t.test('at the end what is counted is told', async (t) => {
  const { clock, told, strangers, add } = ground()
  add('10.0.0.1')
  add('10.0.0.1')
  strangers.stop()
  t.match(told, [{ count: 1 }])
  t.equal(clock.pending, 0)
})
