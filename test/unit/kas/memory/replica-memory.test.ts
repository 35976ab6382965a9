import { Registry } from 'prom-client'
import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { ReplicaMemory } from '../../../../src/kas/memory/replica-memory.ts'
import { Tenants } from '../../../../src/kas/memory/tenants.ts'

const [one, other, foreign] = [1n, 2n, 3n] as AgentId[] as [AgentId, AgentId, AgentId]

t.test('agents of one configuration project are one tenant; one that nobody knows is its own', async (t) => {
  const tenants = new Tenants()
  tenants.learn(one, 7n)
  tenants.learn(other, 7n)
  t.equal(tenants.of(one), tenants.of(other))
  t.not(tenants.of(foreign), tenants.of(one))
  tenants.learn(foreign, 7n)
  t.equal(tenants.of(foreign), tenants.of(one))
})

function ground() {
  const register = new Registry()
  const memory = new ReplicaMemory({ unreadBytes: 1000, callersBytes: 1000 }, register)
  memory.tenants.learn(one, 7n)
  memory.tenants.learn(other, 7n)
  memory.tenants.learn(foreign, 8n)
  let drops = 0
  const hold = (agentId: AgentId, caller: string, bytes: number) => {
    const share = memory.enter('unread', agentId, caller)
    share.add(bytes)
    const holder = {
      bufferedBytes: bytes,
      drop: () => {
        drops++
        share.remove(bytes)
      },
    }
    share.holders.add(holder)
  }
  return { memory, register, hold, drops: () => drops }
}

t.test('who has left most unread is told before anything else of theirs ends; others get the room', async (t) => {
  const { memory, hold, drops } = ground()
  t.ok(memory.hasRoom('unread', one, 'evil', 1000), 'nothing waits')
  hold(one, 'evil', 500)
  hold(other, 'evil', 450)
  t.ok(memory.hasRoom('unread', one, 'evil', 50))
  t.notOk(memory.hasRoom('unread', one, 'evil', 100))
  t.equal(drops(), 0)
  t.ok(memory.hasRoom('unread', foreign, 'good', 100))
  t.equal(drops(), 1)
  t.equal(memory.unread.bytes, 450, 'nothing is taken by the question')
})

t.test('metrics tell how full each share is, and how often it was', async (t) => {
  const { memory, register, hold } = ground()
  hold(one, 'evil', 900)
  memory.hasRoom('unread', one, 'evil', 200)
  const text = await register.metrics()
  for (const line of [
    'kas_memory_share_bytes{share="unread"} 900',
    'kas_memory_share_bytes{share="callers"} 0',
    'kas_memory_share_limit_bytes{share="unread"} 1000',
    'kas_memory_share_full_total{share="unread"} 1',
    'kas_memory_share_full_total{share="callers"} 0',
  ])
    t.match(text, line)
})
