import t, { type Test } from 'tap'
import type { AgentId, Call } from '../../../src/call/call.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import type { KubernetesServerComponents } from '../../../src/kas/servers/kubernetes/kubernetes-server.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { eventually } from '../../support/eventually.ts'
import { RawClient } from './raw-client.ts'
import { directoryWithBob, startServer } from './start-server.ts'

/**
 * The memory of callers is one total of the replica, over all agents (doc/operate/operations.md "How a replica divides its
 * memory").
 */

const KiB = 1024
const [ada, bob] = ['good', 'bob'].map((token) => `Authorization: Bearer pat:42:${token}`) as [string, string]
const full = /^HTTP\/1\.1 429 .*This replica of kas has \d+ MiB for connections and calls/s

/** @param callersBytes - a connection takes 8 KiB here; a call takes 16 KiB and three times its head */
async function ground(t: Test, callersBytes: number, more: Partial<KubernetesServerComponents> = {}) {
  const waiting = new Set<Call>()
  const agent = { isSilent: true }
  let begun = 0
  const forward = async (call: Call) => {
    if (!agent.isSilent) throw new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 0 })
    begun++
    waiting.add(call)
    try {
      return await abortable(new Promise<never>(() => undefined), call.signal)
    } finally {
      waiting.delete(call)
    }
  }
  const memory = new ReplicaMemory({ unreadBytes: 1024 * KiB, callersBytes })
  const { server, port, count } = await startServer(forward, {}, undefined, {
    directory: directoryWithBob,
    memory,
    ...more,
  })
  t.teardown(() => server.stop(AbortSignal.abort()))
  const open = async (line: string, ...headers: string[]) => {
    const client = await RawClient.open(port)
    t.teardown(() => client.close())
    client.request(line, ...headers)
    return client
  }
  /** Makes a call. Resolves when it waits for its agent, or is refused. */
  const call = async (who: string, ...headers: string[]) => {
    const before = begun
    const client = await open('GET /k8s-proxy/version', who, ...headers)
    await eventually(() => begun > before || client.text !== '')
    return client
  }
  const bytes = () => memory.enter('callers', 42n as AgentId, 'nobody').total.bytes
  return { call, open, agent, waiting, count, bytes }
}

t.test('whoever has most is refused; others get the place of a call of theirs', async (t) => {
  const { call, waiting, count } = await ground(t, 200 * KiB)
  const calls: RawClient[] = []
  while (!calls.at(-1)?.text) calls.push(await call(ada))
  t.match(calls.at(-1)?.text, full, 'the call that is one too many')
  const held = calls.length - 1
  t.ok(held >= 6, `${held} calls have room`)
  t.equal(waiting.size, held, 'those that wait go on')
  const other = await call(bob)
  await eventually(() => calls[held - 2]?.text !== '')
  for (const { text } of calls.slice(held - 2))
    t.match(text, full, 'her newest calls made room for a connection and a call')
  for (const { text } of calls.slice(0, held - 2)) t.equal(text, '', 'the others go on')
  t.equal(other.text, '', 'his waits')
  t.equal(waiting.size, held - 1)
  t.equal(await count('REPLICA_MEMORY_FULL'), 3)
})

t.test('the longest heads take more of it', async (t) => {
  const { call, waiting } = await ground(t, 200 * KiB)
  const long = `X-Long: ${'x'.repeat(40 * KiB)}`
  await call(ada, long)
  const second = await call(ada, long)
  t.match(second.text, full)
  t.equal(waiting.size, 1)
})

t.test('connections on which nothing runs go first', async (t) => {
  const { call, open, agent, bytes } = await ground(t, 64 * KiB)
  agent.isSilent = false
  const kept: RawClient[] = []
  for (let i = 0; i < 5; i++) {
    const client = await open('GET /k8s-proxy/version', ada)
    await client.until(/^HTTP\/1\.1 502/)
    kept.push(client)
  }
  await eventually(() => bytes() === 5 * 8 * KiB)
  agent.isSilent = true
  const one = await call(ada)
  t.equal(one.text, '', 'there is room for a call of her own')
  await eventually(() => kept.some(({ ended }) => ended !== undefined))
  const closed = kept.filter(({ ended }) => ended !== undefined).length
  t.ok(closed < kept.length, `${closed} of ${kept.length} connections were closed, no more than needed`)
  t.ok(bytes() <= 64 * KiB)
})

t.test('a connection counts for its first call, whatever kas itself has answered on it before', async (t) => {
  const answer = async () => ({ status: 200, mediaType: 'text/plain', body: Buffer.from('all of it') })
  const user = { id: 5n, username: 'ada' }
  const { open, call, bytes, waiting } = await ground(t, 200 * KiB, {
    endpoints: [
      { path: '/agents', methods: ['GET'], admit: async () => ({ user, answer }) },
      { path: '/hooks/', methods: ['POST'], open: async () => answer },
    ],
  })
  const direct = await call(ada)
  const each = bytes()
  direct.close()
  await eventually(() => bytes() === 0)
  for (const line of ['GET /k8s-proxy/agents', 'POST /k8s-proxy/hooks/x']) {
    const client = await open(line, 'Content-Length: 0', ada)
    await client.until(/all of it$/)
    client.request('GET /k8s-proxy/version', ada)
    await eventually(() => waiting.size === 1)
    t.equal(bytes(), each, line)
    client.close()
    await eventually(() => bytes() === 0)
  }
  const calls: RawClient[] = []
  while (!calls.at(-1)?.text.includes(' 429 ')) {
    const client = await open('GET /k8s-proxy/agents', ada)
    await client.until(/all of it$/)
    calls.push(client)
    const before = waiting.size
    client.request('GET /k8s-proxy/version', ada)
    await eventually(() => waiting.size > before || client.text.includes(' 429 '))
  }
  t.ok(calls.length <= 9, `${calls.length} calls, with their connections, fill the share`)
})

t.test('nothing is left of calls that have ended', async (t) => {
  const { call, bytes } = await ground(t, 200 * KiB)
  const clients = [await call(ada), await call(bob)]
  t.ok(bytes() > 40 * KiB)
  for (const client of clients) client.close()
  await eventually(() => bytes() === 0)
})
