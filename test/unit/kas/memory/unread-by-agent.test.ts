import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { ReplicaMemory } from '../../../../src/kas/memory/replica-memory.ts'
import { UnreadByAgent } from '../../../../src/kas/memory/unread-by-agent.ts'

const agent = 7n as AgentId

t.test('an agent has one account, as long as anything of it waits', async (t) => {
  const agents = new UnreadByAgent(new ReplicaMemory(), { maxBytes: 100 })
  const first = agents.enter(agent)
  const second = agents.enter(agent)
  t.equal(second.unread, first.unread)
  t.not(agents.enter(8n as AgentId).unread, first.unread)
  first.unread.add(60)
  first.leave()
  second.leave()
  const third = agents.enter(agent)
  t.equal(third.unread, first.unread, 'what its calls have left unread counts')
  t.notOk(third.unread.add(60))
  third.leave()
  first.unread.remove(20)
  first.unread.remove(40)
  const fresh = agents.enter(agent)
  t.not(fresh.unread, first.unread, 'nothing was left')
  fresh.unread.add(1)
  fresh.unread.remove(1)
  t.equal(agents.enter(agent).unread, fresh.unread, 'it is in use')
})
