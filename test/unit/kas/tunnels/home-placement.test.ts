import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { MemberPlacement, type MemberPlacementComponents } from '../../../../src/kas/tunnels/home-placement.ts'
import type { MembershipChange } from '../../../../src/membership/membership.ts'
import { startMembership } from '../../membership/fake-gossip.ts'
import { connection } from '../../membership/rows.ts'

const agentId = 42n as AgentId

function start() {
  const listeners: ((change: MembershipChange) => void)[] = []
  const ownListeners: ((agentId: AgentId) => void)[] = []
  const here = { pods: ['b'], elsewhere: ['a', ''], asked: 0 }
  const membership = {
    name: 'kas-0',
    rank: () => ['kas-0', 'kas-1', 'kas-2'],
    holders: () => [{ connections: here.elsewhere.map((pod) => ({ pod })) }],
    members: () => [{ name: 'kas-1', instance: 'one' }],
    row: () => ({ head: { agentAddress: 'wss://kas-1' } }),
    ownPods: () => {
      here.asked++
      return here.pods
    },
    onChange: (listener: (change: MembershipChange) => void) => void listeners.push(listener),
    onOwnPods: (listener: (agentId: AgentId) => void) => void ownListeners.push(listener),
  } as unknown as MemberPlacementComponents['membership']
  const placement = new MemberPlacement({ membership })
  const changed = (...agentIds: AgentId[]) => {
    for (const listener of listeners) listener({ kind: 'connections', agentIds: new Set(agentIds) })
  }
  const podsChanged = () => {
    for (const listener of ownListeners) listener(agentId)
  }
  return { placement, here, changed, podsChanged }
}

t.test('pods of an agent are put in order once, until they change here or elsewhere', async (t) => {
  const { placement, here, changed, podsChanged } = start()
  const home = (pod: string) => placement.homeOf(agentId, pod)?.home.name
  t.strictSame(
    ['a', 'b', 'c', 'd'].map(home),
    ['kas-0', 'kas-1', 'kas-2', 'kas-2'],
    'one that is not listed counts too',
  )
  t.strictSame(placement.homeOf(agentId, 'b'), {
    home: { name: 'kas-1', address: 'wss://kas-1' },
    standby: { name: 'kas-2' },
  })
  t.equal(here.asked, 1)
  here.pods = ['b', 'c']
  podsChanged()
  t.equal(home('d'), 'kas-0')
  here.elsewhere = []
  changed(1n as AgentId)
  t.equal(home('b'), 'kas-1', 'another agent')
  changed(agentId)
  t.equal(home('b'), 'kas-0')
  t.equal(here.asked, 3)
})

t.test('a row that is read whole and has but another pod moves homes', async (t) => {
  const { membership, pull } = await startMembership()
  t.teardown(() => membership.stop())
  membership.setState('serving')
  membership.addConnection(connection('1', 42, { pod: 'm' }))
  const placement = new MemberPlacement({ membership })
  const changed: unknown[] = []
  placement.onChange((agentIds) => changed.push(agentIds))
  const home = () => placement.homeOf(agentId, 'm')?.home.name
  await pull({ connections: [connection('2', 42, { pod: 'z' })] })
  const before = home()
  await pull({ connections: [connection('2', 42, { pod: 'a' })] })
  t.strictSame(changed.at(-1), new Set([agentId]))
  t.not(home(), before, 'it is the second of its agent now')
})
