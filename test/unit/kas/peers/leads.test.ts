import { create, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { type LeadMembership, Leads } from '../../../../src/kas/peers/leads.ts'
import { noPeers } from '../../../../src/kas/peers/peers.ts'
import type { MembershipChange } from '../../../../src/membership/membership.ts'
import {
  Leads as LeadsService,
  PassedOnRequestSchema,
  PassedOnResponseSchema,
} from '../../../../src/proto/gen/replica_leads_pb.ts'
import { type UnaryMethods, unaryService } from '../../../../src/proto/unary.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'
import { FakePeers } from './fake-peers.ts'

const agentId = 42n as AgentId
/** A membership table. The test sets the other holders of the agent and the order of the ring. */
function join(rank: string[]) {
  const holders: (string | { name: string; role?: string; methods?: string[] })[] = []
  const listeners = new Set<(change: MembershipChange) => void>()
  const membership = {
    name: 'kas-1',
    rank: () => rank,
    holders: () =>
      holders.map((holder) => {
        const { name, role = 'home', methods = ['/a/b'] } = typeof holder === 'string' ? { name: holder } : holder
        return { row: { head: { name } }, connections: [{ role, methods }] }
      }),
    onChange: (listener: (change: MembershipChange) => void) => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
  const clock = new ManualClock()
  const passed: AgentId[] = []
  const follower = unaryService(LeadsService, {
    passedOn: async ({ agentId, name }) => {
      if (name !== 'kas-1') throw new Error('it is another that passes it on')
      passed.push(agentId as AgentId)
      return create(PassedOnResponseSchema)
    },
  })
  /** replicas that acknowledge */
  const known = new Map<string, UnaryMethods>(rank.filter((name) => name !== 'kas-1').map((name) => [name, follower]))
  const components = { membership: membership as unknown as LeadMembership, peers: new FakePeers(known), clock }
  const leads = new Leads(components)
  const notify = (change: MembershipChange) => listeners.forEach((listener) => void listener(change))
  const membersChanged = () => notify({ kind: 'members' })
  const changed = (...agentIds: AgentId[]) => notify({ kind: 'connections', agentIds: new Set(agentIds) })
  return { leads, holders, changed, membersChanged, listeners, clock, passed, known, follower }
}

t.test('a replica that is alone leads', async (t) => {
  const leads = new Leads({ membership: undefined, peers: noPeers, clock: new ManualClock() })
  t.equal(leads.leads(agentId), true)
  leads.onChange(agentId, () => t.fail('nothing changes'))()
})

t.test('the first in rank of those that hold the agent leads', async (t) => {
  const { leads, holders } = join(['kas-0', 'kas-1', 'kas-2'])
  t.equal(leads.leads(agentId), true, 'no other holds it')
  holders.push('kas-2')
  t.equal(leads.leads(agentId), true)
  holders.push('kas-0')
  t.equal(leads.leads(agentId), false)
})

t.test('one that has no configuration stream does not lead', async (t) => {
  const { leads, holders } = join(['kas-0', 'kas-1', 'kas-2'])
  holders.push({ name: 'kas-0', role: 'standby' }, { name: 'kas-2' })
  t.equal(leads.leads(agentId), true, 'a standby')
  holders.push({ name: 'kas-0', methods: [] })
  t.equal(leads.leads(agentId), true, 'a connection that the agent leaves')
})

t.test('one that leaves does not lead beside one that stays; if all leave, all do', async (t) => {
  const { leads, holders } = join(['kas-2'])
  holders.push('kas-2')
  t.equal(leads.leads(agentId), false)
  const last = join([])
  last.holders.push('kas-2')
  t.equal(last.leads.leads(agentId), true)
})

t.test('a listener is called when its lead may have changed', async (t) => {
  const { leads, changed, membersChanged, listeners } = join(['kas-1'])
  let calls = 0
  const forget = leads.onChange(agentId, () => calls++)
  membersChanged()
  changed(agentId)
  changed(43n as AgentId)
  t.equal(calls, 2)
  forget()
  membersChanged()
  t.equal(calls, 2)
  await leads.stop()
  t.equal(listeners.size, 0)
})

t.test('one subscription to the membership serves all listeners', async (t) => {
  const { leads, changed, membersChanged, listeners } = join(['kas-1'])
  const called: number[] = []
  const ids = Array.from({ length: 100 }, (_, i) => BigInt(i) as AgentId)
  const forget = ids.flatMap((id) => [1, 2].map(() => leads.onChange(id, () => called.push(Number(id)))))
  t.equal(listeners.size, 1)
  changed(3n as AgentId, 100n as AgentId)
  t.same(called, [3, 3])
  membersChanged()
  t.equal(called.length, 202)
  for (const each of forget) each()
  membersChanged()
  t.equal(called.length, 202)
})

t.test('one that fails passes the lead on for ten minutes, and tells its peers once', async (t) => {
  const { leads, holders, clock, passed } = join(['kas-1', 'kas-2'])
  const states: boolean[] = []
  leads.onChange(agentId, () => states.push(leads.leads(agentId)))
  leads.passOn(agentId)
  t.equal(leads.leads(agentId), true, 'there is no other')
  t.same(passed, [])
  holders.push('kas-2')
  leads.passOn(agentId)
  leads.passOn(agentId)
  t.equal(leads.leads(agentId), true, 'until the next one knows')
  await settle()
  t.equal(leads.leads(agentId), false)
  leads.passOn(agentId)
  t.same(passed, [agentId])
  t.equal(leads.leads(43n as AgentId), true, 'others are as before')
  clock.advance(599_999)
  t.same(states, [false])
  clock.advance(1)
  t.same(states, [false, true])
})

t.test('one to which the lead is passed on leads for a time; if all fail the first does', async (t) => {
  const { leads, holders, clock, passed } = join(['kas-0', 'kas-1'])
  holders.push('kas-0')
  t.equal(leads.leads(agentId), false)
  leads.passOn(agentId)
  t.same(passed, [], 'it does not lead')
  leads.passOver(agentId, 'kas-0')
  t.equal(leads.leads(agentId), true)
  clock.advance(300_000)
  leads.passOn(agentId)
  await settle()
  t.same(passed, [], 'there is nobody left to pass it on to')
  t.equal(leads.leads(agentId), true)
  clock.advance(300_000)
  t.equal(leads.leads(agentId), false, 'kas-0 may again')
  await leads.stop()
  t.equal(clock.pending, 0)
})

t.test('one whose next does not acknowledge, or is too old to, goes on', async (t) => {
  const { leads, holders, passed, known, follower } = join(['kas-1', 'kas-2', 'kas-3'])
  holders.push('kas-2', 'kas-3')
  known.delete('kas-2')
  leads.passOn(agentId)
  await settle()
  t.equal(leads.leads(agentId), true)
  t.same(passed.splice(0), [agentId], 'kas-3 alone knows')
  known.set('kas-2', follower)
  leads.passOn(agentId)
  await settle()
  t.equal(leads.leads(agentId), false)
  t.same(passed, [agentId, agentId], 'all others')
  await leads.stop()
  leads.passOver(agentId, 'kas-2')
  t.equal(leads.leads(agentId), true, 'nothing is kept after the stop')
})

t.test('what is passed over is bounded', async (t) => {
  const { leads, clock } = join(['kas-0', 'kas-1'])
  for (let id = 0n; id < 12_000n; id++) leads.passOver(id as AgentId, 'kas-0')
  t.equal(clock.pending, 10_000)
  await leads.stop()
})

t.test('a peer passes the lead on by a call', async (t) => {
  const { leads, holders } = join(['kas-0', 'kas-1'])
  t.teardown(() => leads.stop())
  holders.push('kas-0')
  const [[path, passedOn] = []] = leads.replicaMethods
  t.equal(path, '/kas.replica.v1.Leads/PassedOn')
  await passedOn?.(toBinary(PassedOnRequestSchema, create(PassedOnRequestSchema, { agentId, name: 'kas-0' })))
  t.equal(leads.leads(agentId), true)
})
