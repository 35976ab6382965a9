import t, { type Test } from 'tap'
import { Join } from '../../../../src/membership/protocol/join.ts'
import { defaultTimers } from '../../../../src/membership/protocol/timers.ts'
import { ListedSource } from '../../../cluster/replicas.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

function join(t: Test, source = new ListedSource(undefined)) {
  const clock = new ManualClock()
  const state = { unknown: 0, missing: 0, unanswered: [] as (readonly string[])[], done: false }
  const one = new Join(
    {
      clock,
      sources: [source],
      unknownAddresses: () => state.unknown,
      missingRows: () => state.missing,
      sourcesUnanswered: (names) => void state.unanswered.push(names),
    },
    defaultTimers,
  )
  t.teardown(() => one.stop())
  return { one, clock, state, source }
}

t.test('waits for the source, for the addresses, for the rows', async (t) => {
  const { one, clock, state, source } = join(t)
  one.start()
  t.match(one.reason(), /discovery by static/)
  state.unknown = 2
  source.list(['10.0.0.1:8156', '10.0.0.2:8156'])
  one.update()
  t.match(one.reason(), /2 listed addresses/)
  state.unknown = 0
  state.missing = 1
  one.update()
  t.match(one.reason(), /1 replicas/)
  state.missing = 0
  one.update()
  t.equal(one.reason(), undefined)
  await one.done
  t.equal(clock.pending, 0)
  t.strictSame(state.unanswered, [])
})

t.test('goes on after 5 s without a member that does not answer', async (t) => {
  const { one, clock, state } = join(t, new ListedSource(['10.0.0.1:8156']))
  state.unknown = 1
  one.start()
  clock.advance(defaultTimers.joinMs - 1)
  t.match(one.reason(), /1 listed/)
  clock.advance(1)
  t.equal(one.reason(), undefined)
  await one.done
})

t.test('goes on after 15 s without a source that has never answered, and says so', async (t) => {
  const { one, clock, state } = join(t)
  one.start()
  clock.advance(defaultTimers.sourcePatienceMs - 1)
  t.strictSame(state.unanswered, [])
  clock.advance(1)
  t.strictSame(state.unanswered, [['static']])
  await one.done
  t.equal(clock.pending, 0)
})

t.test('a stop ends the wait', async (t) => {
  const { one, clock } = join(t)
  one.start()
  one.stop()
  await one.done
  t.equal(clock.pending, 0)
})
