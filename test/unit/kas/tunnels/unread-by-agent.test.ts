import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { UnreadByAgent } from '../../../../src/kas/tunnels/unread-by-agent.ts'

const agent = 7n as AgentId

t.test('an agent has one account, as long as anything of it waits', async (t) => {
  const agents = new UnreadByAgent({ maxBytes: 100 })
  const first = agents.enter(agent)
  const second = agents.enter(agent)
  t.equal(second.held, first.held)
  t.not(agents.enter(8n as AgentId).held, first.held)
  first.held.add(60)
  first.leave()
  second.leave()
  const third = agents.enter(agent)
  t.equal(third.held, first.held, 'what its calls have left unread counts')
  t.notOk(third.held.add(60))
  third.leave()
  first.held.remove(20)
  first.held.remove(40)
  const fresh = agents.enter(agent)
  t.not(fresh.held, first.held, 'nothing was left')
  fresh.held.add(1)
  fresh.held.remove(1)
  t.equal(agents.enter(agent).held, fresh.held, 'it is in use')
})
