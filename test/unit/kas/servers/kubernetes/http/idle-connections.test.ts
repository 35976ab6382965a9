import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import { IdleConnections, type Kept } from '../../../../../../src/kas/servers/kubernetes/http/idle-connections.ts'

function ground(max: number) {
  const closed: string[] = []
  let counted = 0
  const idle = new IdleConnections(max, () => counted++)
  const keep = (name: string, callerKey: string, agentId = 42n): Kept => {
    const owner = { agentId: agentId as AgentId, callerKey }
    const kept = { socket: { destroyed: false }, owner, drop: () => void closed.push(name) }
    idle.add(kept)
    return kept
  }
  return { idle, keep, closed, counted: () => counted }
}

t.test('the longest idle of the caller who has most makes room, not those of others', async (t) => {
  const { keep, closed, counted } = ground(4)
  keep('other', 'b')
  keep('a1', 'a')
  keep('a2', 'a')
  keep('a3', 'a')
  keep('a4', 'a')
  keep('other 2', 'b')
  t.same(closed, ['a1', 'a2'])
  t.equal(counted(), 2)
})

t.test('agents have room of their own, and who is used again is idle no more', async (t) => {
  const { idle, keep, closed } = ground(1)
  const first = keep('first', 'a')
  keep('elsewhere', 'a', 43n)
  idle.delete(first)
  idle.delete(first)
  keep('second', 'a')
  t.same(closed, [])
  idle.add(first)
  t.same(closed, ['second'])
})
