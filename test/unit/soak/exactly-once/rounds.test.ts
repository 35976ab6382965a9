import t from 'tap'
import { planRounds, type Round, textOf } from '../../../soak/exactly-once/rounds.ts'

const kindOf = ({ fault, victim, moment }: Round) => `${fault} ${victim} ${moment}`

t.test('twelve rounds play each fault of each victim at each moment', async (t) => {
  t.equal(new Set(planRounds(12, 1).map(kindOf)).size, 12)
})

t.test('few rounds play the moment at which a repeat would do harm', async (t) => {
  t.strictSame(
    planRounds(4, 1).map(({ moment, entryHolds }) => ({ moment, entryHolds })),
    Array(4).fill({ moment: 'inside', entryHolds: false }),
  )
})

t.test('of many, some enter where the agent is, and some freezes outlast the patience of agentk', async (t) => {
  const rounds = planRounds(200, 1)
  t.ok(rounds.some(({ entryHolds }) => entryHolds))
  const long = rounds.filter(({ fault, frozenMs }) => fault === 'freeze' && frozenMs > 10_000)
  t.same(new Set(long.map(({ victim }) => victim)), new Set(['entry', 'holder']))
  t.ok(rounds.some(({ holdMs }) => holdMs > 1000))
})

t.test('a seed gives the same rounds again, and more rounds begin with them', async (t) => {
  t.strictSame(planRounds(20, 7), planRounds(50, 7).slice(0, 20))
  t.notSame(planRounds(20, 7), planRounds(20, 8))
})

t.test('a round as text', async (t) => {
  const [round] = planRounds(1, 1) as [Round]
  const text = textOf({ ...round, fault: 'freeze', frozenMs: 700, afterMs: 3, holdMs: 50, entryHolds: true })
  t.equal(
    text,
    'round 1: freeze of the holder for 700 ms, inside + 3 ms, requests kept 50 ms longer, entered where the agent is',
  )
})
