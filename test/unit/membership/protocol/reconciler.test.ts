import t, { type Test } from 'tap'
import { type DialResult, Reconciler } from '../../../../src/membership/protocol/reconciler.ts'
import { defaultTimers } from '../../../../src/membership/protocol/timers.ts'
import type { InstanceId } from '../../../../src/membership/table/row.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { settled } from '../fake-network.ts'
import { instance } from '../rows.ts'

const a = '10.0.0.1:8156'
const b = '10.0.0.2:8156'

/** A reconciler. The test says which replica answers at each address. */
function reconciler(t: Test) {
  const clock = new ManualClock()
  const connected = new Set<InstanceId>()
  const answers = new Map<string, DialResult>()
  const dials: string[] = []
  const lost: InstanceId[] = []
  const at = new Map<string, InstanceId>()
  const one = new Reconciler(
    {
      clock,
      random: () => 0.5,
      async dial(address, signal) {
        dials.push(address)
        const answer = answers.get(address)
        if (answer) {
          if (answer.kind === 'member') connected.add(answer.instance)
          return answer
        }
        return await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
      isSelf: (address) => address === '10.0.0.9:8156',
      isConnected: (other) => connected.has(other),
      whoIsAt: (address) => at.get(address),
      lost: (other) => void lost.push(other),
      dialled: () => undefined,
    },
    defaultTimers,
  )
  t.teardown(() => one.stop())
  return { one, clock, connected, answers, dials, lost, at }
}
const member = (name: string): DialResult => ({ kind: 'member', instance: instance(name) })

t.test('dials at once who is listed at the start, never itself, and each once', async (t) => {
  const { one, clock, answers, dials } = reconciler(t)
  answers.set(a, member('a'))
  answers.set(b, { kind: 'self' })
  one.set([a, b, '10.0.0.9:8156'])
  one.start()
  t.strictSame(one.unknown(), [a, b])
  await settled()
  t.strictSame(one.unknown(), [])
  clock.advance(10_000)
  t.strictSame(dials, [a, b])
})

t.test('a newcomer is left the first dial, and dialled at the next look', async (t) => {
  const { one, clock, dials, at, connected } = reconciler(t)
  one.start()
  clock.advance(defaultTimers.joinMs)
  one.set([a, b])
  t.strictSame(dials, [])
  at.set(a, instance('a'))
  connected.add(instance('a'))
  clock.advance(defaultTimers.reconcileMs)
  t.strictSame(dials, [b], 'a has connected by itself')
})

t.test('who is disconnected is dialled at once; refused, or another instance there: it is lost', async (t) => {
  for (const answer of [{ kind: 'refused' } as const, member('other')]) {
    const { one, answers, dials, lost, connected } = reconciler(t)
    answers.set(a, member('a'))
    one.set([a])
    one.start()
    await settled()
    connected.delete(instance('a'))
    answers.set(a, answer)
    one.disconnected(instance('a'))
    await settled()
    t.strictSame(dials, [a, a])
    t.strictSame(lost, [instance('a')])
  }
})

t.test('one that does not answer is not lost, and dialled again', async (t) => {
  const { one, clock, answers, dials, lost, connected } = reconciler(t)
  answers.set(a, member('a'))
  one.set([a])
  one.start()
  await settled()
  connected.clear()
  answers.delete(a)
  one.disconnected(instance('a'))
  clock.advance(defaultTimers.handshakeMs)
  await settled()
  t.strictSame(lost, [])
  clock.advance(defaultTimers.reconcileMs)
  t.strictSame(dials, [a, a, a])
})

t.test('one that is not listed any more is lost once it is not connected', async (t) => {
  const { one, answers, lost, connected } = reconciler(t)
  answers.set(a, member('a'))
  answers.set(b, member('b'))
  one.set([a, b])
  one.start()
  await settled()
  connected.delete(instance('a'))
  one.set([])
  t.strictSame(lost, [instance('a')], 'b is connected still')
})

t.test('where nobody is found is told with how often and why, until somebody is there', async (t) => {
  const { one, clock, answers, at, connected } = reconciler(t)
  answers.set(a, { kind: 'refused' })
  answers.set(b, { kind: 'failed', error: new AggregateError([new Error('another secret')]) })
  one.set([b, a, '10.0.0.9:8156'])
  one.start()
  await settled()
  clock.advance(defaultTimers.reconcileMs)
  await settled()
  t.strictSame(one.unanswered(), [
    { address: a, dials: 2, reason: 'connection refused' },
    { address: b, dials: 2, reason: 'another secret' },
  ])
  at.set(a, instance('a')) // this replica has connected by itself
  connected.add(instance('a'))
  one.connected()
  t.match(one.unanswered(), [{ address: b }])
  one.set([a])
  t.strictSame(one.unanswered(), [], 'it is listed no more')
  connected.delete(instance('a'))
  at.delete(a)
  one.disconnected(instance('a'))
  await settled()
  t.match(one.unanswered(), [{ address: a, dials: 1 }], 'from the beginning')
})

t.test('nothing runs after the stop', async (t) => {
  const { one, clock, dials } = reconciler(t)
  one.set([a])
  one.start()
  one.stop()
  await settled()
  clock.advance(60_000)
  t.strictSame(dials, [a])
  t.equal(clock.pending, 0)
})
