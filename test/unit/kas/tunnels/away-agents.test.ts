import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { AwayAgents, type AwayAgentsOptions } from '../../../../src/kas/tunnels/away-agents.ts'
import { Listeners } from '../../../../src/lib/listeners.ts'
import type { Holder, MembershipChange, UnansweredAddress } from '../../../../src/membership/membership.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const [one, other, third] = [1n as AgentId, 2n as AgentId, 3n as AgentId]
const noon = Date.parse('2026-06-01T12:00:00Z')

/** A replica; the test sets its own tunnels and those of its peers. */
function setUp(options: Partial<AwayAgentsOptions> = {}) {
  const clock = new ManualClock(1000)
  const here = new Set<AgentId>()
  const atPeers = new Set<AgentId>()
  const onLast = new Listeners<AgentId>()
  const changes = new Listeners<MembershipChange>()
  const unanswered: UnansweredAddress[] = []
  const away = new AwayAgents(
    {
      tunnels: { holds: (id) => here.has(id), onLast: (listener) => onLast.add(listener) },
      membership: {
        holders: (id) => (atPeers.has(id) ? [{} as Holder] : []),
        onChange: (listener) => changes.add(listener),
        unanswered: () => unanswered,
      },
      clock,
      wallClock: { now: () => noon + clock.now() - 1000 },
    },
    { awayMs: 20_000, maxKept: 10, ...options },
  )
  const leaves = (id: AgentId) => {
    here.delete(id)
    onLast.notify(id)
  }
  const peersHave = (id: AgentId, isThere: boolean) => {
    if (isThere) atPeers.add(id)
    else atPeers.delete(id)
    changes.notify({ kind: 'connections', agentIds: new Set([id]) })
  }
  return { away, clock, here, leaves, peersHave, unanswered, listeners: () => onLast.size + changes.size }
}

t.test('a replica that has just begun to serve knows nothing of before: it waits for as long itself', async (t) => {
  const { away, clock, listeners } = setUp()
  clock.advance(60_000)
  t.equal(away.find(one), undefined, 'it does not serve')
  await away.start()
  clock.advance(19_999)
  t.equal(away.find(one), undefined)
  clock.advance(1)
  t.strictSame(away.find(one), { agentId: '1', awayMs: 20_000 }, 'at least for so long: since when it has not seen')
  await away.stop()
  t.equal(away.find(one), undefined)
  t.equal(listeners(), 0)
})

t.test('an agent is away since the last replica has lost it', async (t) => {
  const { away, clock, here, leaves, peersHave } = setUp()
  await away.start()
  here.add(one)
  peersHave(one, true)
  clock.advance(60_000)
  leaves(one)
  clock.advance(30_000)
  t.equal(away.find(one), undefined, 'a peer has it')
  peersHave(one, false)
  t.equal(away.find(one), undefined, 'it has just gone')
  clock.advance(19_999)
  t.equal(away.find(one), undefined)
  clock.advance(5001)
  t.strictSame(away.find(one), { agentId: '1', awayMs: 25_000, awaySince: noon + 90_000 })
  here.add(one)
  t.equal(away.find(one), undefined, 'it is back')
  leaves(one)
  clock.advance(20_000)
  t.strictSame(away.find(one), { agentId: '1', awayMs: 20_000, awaySince: noon + 115_000 })
  t.strictSame(away.find(other), { agentId: '2', awayMs: 135_000 })
})

t.test('a listed peer that has not been reached yet may have it', async (t) => {
  const { away, clock, unanswered } = setUp()
  await away.start()
  clock.advance(60_000)
  const at = (dials: number) => ({ address: '10.0.0.7:7946', dials, reason: 'connection refused' })
  unanswered.push(at(1))
  t.equal(away.find(one), undefined)
  unanswered.splice(0, 1, at(20))
  t.match(away.find(one), { agentId: '1' }, 'nobody has been there for as long as an agent is waited for')
})

t.test('of more agents than are remembered the oldest was gone at least so long ago', async (t) => {
  const { away, clock, leaves } = setUp({ maxKept: 2 })
  await away.start()
  for (const id of [one, other, third]) {
    clock.advance(10_000)
    leaves(id)
  }
  clock.advance(20_000)
  t.strictSame(away.find(one), { agentId: '1', awayMs: 40_000 })
  t.strictSame(away.find(other), { agentId: '2', awayMs: 30_000, awaySince: noon + 20_000 })
  leaves(other)
  leaves(one)
  clock.advance(20_000)
  t.strictSame(away.find(third), { agentId: '3', awayMs: 40_000 }, 'the one that left again is the latest')
})
