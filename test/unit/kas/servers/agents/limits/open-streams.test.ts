import t from 'tap'
import type { AgentId } from '../../../../../../src/call/call.ts'
import { headBytes, OpenStreams } from '../../../../../../src/kas/servers/agents/limits/open-streams.ts'

const [one, other] = [1n, 2n] as [AgentId, AgentId]
const options = { maxTunnels: 3, maxCalls: 2, maxConnections: 2, maxHeadBytes: 1000 }

t.test('each agent has its own room, for tunnels and for other calls', async (t) => {
  const open = new OpenStreams(options)
  for (let i = 0; i < 3; i++) open.enter(one, 'tunnels', 10)
  t.throws(() => open.enter(one, 'tunnels', 10), {
    code: 'TOO_MANY_STREAMS',
    message: 'Too many tunnels of this agent at this replica, allowed: 3. Please try again later',
  })
  for (let i = 0; i < 2; i++) open.enter(one, 'calls', 10)
  t.throws(() => open.enter(one, 'calls', 10), { code: 'TOO_MANY_STREAMS', message: /many calls of .*allowed: 2/ })
  open.enter(other, 'tunnels', 10)
  open.leave(one, 'tunnels', 10)
  open.enter(one, 'tunnels', 10)
  t.throws(() => open.enter(one, 'tunnels', 10), { code: 'TOO_MANY_STREAMS' }, 'one left, one came')
})

t.test('what the heads of its streams take is bounded', async (t) => {
  const open = new OpenStreams(options)
  open.enter(one, 'tunnels', 600)
  t.throws(() => open.enter(one, 'calls', 401), { code: 'TOO_MANY_STREAMS', message: /bytes of headers.*1000/ })
  open.enter(one, 'calls', 400)
  t.throws(() => open.enter(one, 'calls', 1), { code: 'TOO_MANY_STREAMS' })
  open.leave(one, 'tunnels', 600)
  open.enter(one, 'calls', 600)
})

t.test('a head costs its names and values, each time that one comes', async (t) => {
  t.equal(headBytes({}), 0)
  const small = headBytes({ a: ['x'] })
  t.equal(headBytes({ a: ['xyz'] }), small + 2)
  t.equal(headBytes({ a: ['x', 'x'] }), 2 * small)
  t.ok(small > 2, 'an empty one is not free')
})

t.test('connections are counted apart from their streams', async (t) => {
  const open = new OpenStreams(options)
  open.enter(one, 'connections')
  open.enter(one, 'connections')
  t.throws(() => open.enter(one, 'connections'), { message: /many connections of this agent .*allowed: 2/ })
  open.enter(other, 'connections')
  open.enter(one, 'tunnels', 10)
  open.leave(one, 'connections')
  open.enter(one, 'connections')
})

t.test('a method may have a bound of its own within that of all calls', async (t) => {
  const open = new OpenStreams({ ...options, maxCalls: 5 })
  const heavy = { name: 'Heavy', limit: 2 }
  open.enter(one, 'calls', 0, heavy)
  open.enter(one, 'calls', 0, heavy)
  t.throws(() => open.enter(one, 'calls', 0, heavy), {
    code: 'TOO_MANY_STREAMS',
    message: 'Too many Heavy calls of this agent at this replica, allowed: 2. Please try again later',
  })
  open.enter(other, 'calls', 0, heavy)
  open.enter(one, 'calls', 0, { name: 'Other', limit: 1 })
  open.enter(one, 'calls')
  open.leave(one, 'calls', 0, heavy)
  open.enter(one, 'calls', 0, heavy)
  open.enter(one, 'calls')
  t.throws(() => open.enter(one, 'calls'), { message: /many calls of .*allowed: 5/ })
})
