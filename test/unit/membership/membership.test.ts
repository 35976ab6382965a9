import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { startMembership } from './fake-gossip.ts'
import { entry } from './rows.ts'

t.test('a listener that fails is told of as an error here, and keeps nobody from hearing', async (t) => {
  const { membership, receive, refused, lines } = await startMembership()
  const before: unknown[] = []
  const after: unknown[] = []
  membership.onChange(({ agentIds }) => before.push(agentIds))
  membership.onChange(() => {
    throw new Error('a fault of ours')
  })
  membership.onChange(({ agentIds }) => after.push(agentIds))
  t.equal(receive(42, 1), true)
  t.strictSame(before, [new Set([42n])])
  t.strictSame(after, before)
  t.match(lines, [{ level: 'error', error: { message: 'a fault of ours' } }])
  t.strictSame(await refused(), [])
  t.equal(membership.holders(42n as AgentId).length, 1)
  await membership.stop()
})

t.test('who hears of own pods may fail too', async (t) => {
  const { membership, lines } = await startMembership()
  const after: AgentId[] = []
  membership.onOwnPods(() => {
    throw new Error('a fault of ours')
  })
  membership.onOwnPods((agentId) => after.push(agentId))
  t.equal(membership.addConnection(entry('1')), true)
  t.strictSame(after, [42n])
  t.strictSame([...membership.ownPods(42n as AgentId)], ['pod-1'])
  t.equal(lines.length, 1)
  await membership.stop()
})
