import t from 'tap'
import { type LeadMembership, Leads } from '../../../src/kas/leads.ts'
import type { MembershipChange } from '../../../src/membership/membership.ts'
import type { AgentId } from '../../../src/proto/call.ts'

const agentId = 42n as AgentId

/** A table in which the test says who holds the agent beside `kas-1`, and how the ring orders them. */
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
  const leads = new Leads()
  leads.join(membership as unknown as LeadMembership)
  const tell = (agentIds: MembershipChange['agentIds']) => listeners.forEach((listener) => void listener({ agentIds }))
  return { leads, holders, tell, listeners }
}

t.test('a replica that is alone leads', async (t) => {
  const leads = new Leads()
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

t.test('who asks hears of what may change it', async (t) => {
  const { leads, tell, listeners } = join(['kas-1'])
  let heard = 0
  const forget = leads.onChange(agentId, () => heard++)
  tell('members')
  tell(new Set([agentId]))
  tell(new Set([43n as AgentId]))
  t.equal(heard, 2)
  forget()
  t.equal(listeners.size, 0)
})
