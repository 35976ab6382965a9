import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { Leads } from '../../../src/kas/peers/leads.ts'
import { Links } from '../../../src/kas/peers/links.ts'
import { noPeers } from '../../../src/kas/peers/peers.ts'
import { MemberPlacement } from '../../../src/kas/tunnels/home-placement.ts'
import { noTracer } from '../../../src/lib/tracing/tracer.ts'
import type { Registration } from '../../../src/membership/membership.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { startMembership } from './fake-gossip.ts'
import { connection, delta, instance, registration } from './rows.ts'

t.test('a listener that fails is logged as an error, and keeps no other from being called', async (t) => {
  const { membership, receive, refused, lines } = await startMembership()
  const before: unknown[] = []
  const after: unknown[] = []
  membership.onChange((change) => before.push(change))
  membership.onChange(() => {
    throw new Error('a fault of ours')
  })
  membership.onChange((change) => after.push(change))
  t.equal(receive(delta(1, { connections: [connection('1')] })), true)
  t.strictSame(before, [{ kind: 'connections', agentIds: new Set([42n]) }])
  t.strictSame(after, before)
  t.match(lines, [{ level: 'error', error: { message: 'a fault of ours' } }])
  t.strictSame(await refused(), [])
  t.equal(membership.holders(42n as AgentId).length, 1)
  await membership.stop()
})

t.test('a listener for own pods may fail too', async (t) => {
  const { membership, lines } = await startMembership()
  const after: AgentId[] = []
  membership.onOwnPods(() => {
    throw new Error('a fault of ours')
  })
  membership.onOwnPods((agentId) => after.push(agentId))
  t.equal(membership.addConnection(connection('1')), true)
  t.strictSame(after, [42n])
  t.strictSame([...membership.ownPods(42n as AgentId)], ['pod-1'])
  t.equal(lines.length, 1)
  await membership.stop()
})

t.test('a connection elsewhere wakes router, lead and placement; a registration none of them', async (t) => {
  const { membership, receive, pull, leave } = await startMembership()
  const agentId = 42n as AgentId
  const identity = { certificatePem: '', keyPem: '', publicKeyHash: '' }
  const dial = () => new Promise<never>(() => undefined)
  const links = new Links({ membership, identity, log: capturedLog().log, dial, tracer: noTracer })
  const leads = new Leads({ clock: new ManualClock(), membership, peers: noPeers })
  const placement = new MemberPlacement({ membership })
  await links.start()
  const calls = { router: 0, lead: 0, placement: 0 }
  links.onChange(agentId, () => calls.router++)
  leads.onChange(agentId, () => calls.lead++)
  placement.onChange(() => calls.placement++)
  const kinds: string[] = []
  membership.onChange(({ kind }) => kinds.push(kind))

  receive(delta(1, { registrations: [registration(7n)] }))
  receive(delta(2, { registrations: [registration(7n, 42, { renewed: false })] }))
  receive(delta(3, { removed: ['pod 42 7'] }))
  await pull({ version: 5, registrations: [registration(8n)] })
  t.strictSame(kinds, Array(4).fill('registrations'))
  t.strictSame(calls, { router: 0, lead: 0, placement: 0 })
  t.strictSame(membership.holders(agentId), [], 'a pod that registered is no connection')

  receive(delta(5, { connections: [connection('1')] }))
  t.strictSame(kinds.splice(0, 5).at(-1), 'connections')
  t.strictSame(calls, { router: 1, lead: 1, placement: 1 })
  leave()
  t.strictSame(kinds, ['members', 'connections', 'registrations'])
  await Promise.all([links.stop(), leads.stop(), membership.stop()])
})

t.test('registrations: the own in the own row, those of peers by agent, and the last of a row that goes', async (t) => {
  const { membership, receive, leave } = await startMembership()
  const { registrations } = membership
  const { id: _, ...own } = registration(7n)
  t.equal(registrations.add(own), true)
  const gone: (readonly Registration[])[] = []
  const ignored: unknown[] = []
  registrations.onRowRemoved((last) => gone.push(last))
  registrations.onRowRemoved((last) => ignored.push(last))()
  receive(delta(1, { registrations: [registration(8n), registration(9n, 43)] }))
  t.strictSame(registrations.of(42n as AgentId), [{ instance: instance('other'), registration: registration(8n) }])
  t.strictSame(registrations.all(), [registration(8n), registration(9n, 43)], 'without the own')
  leave()
  t.strictSame(gone, [[registration(8n), registration(9n, 43)]])
  t.strictSame([registrations.all(), ignored], [[], []])
  membership.setState('serving')
  t.strictSame([...(membership.rows()[0]?.registrations.values() ?? [])], [registration(7n)])
  registrations.remove({ agentId: 42n as AgentId, podId: 7n })
  membership.announce()
  t.equal(membership.rows()[0]?.registrations.size, 0)
  await membership.stop()
})
