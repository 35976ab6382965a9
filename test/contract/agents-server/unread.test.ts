import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { ReplicaMemory } from '../../../src/kas/memory/replica-memory.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { encodeConnectRequest } from '../../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, oneAgent, startAgentsServer } from '../../support/agents-server.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent, type FakeTunnel } from '../../support/fake-agent.ts'

/**
 * Bytes that agents send and nobody reads count towards one total of the replica (doc/operate/operations.md "How a replica
 * divides its memory").
 */

const KiB = 1024
const piece = Buffer.alloc(32 * KiB)
const other = 43n as AgentId

/** A directory with a second agent, in a project of its own. Its token is `other`. */
function twoAgents() {
  const { agentByToken, ...rest } = oneAgent()
  return {
    ...rest,
    async agentByToken(token: string, ...more: never[]) {
      if (token !== 'other')
        return await (agentByToken as (...all: unknown[]) => ReturnType<typeof agentByToken>)(token, ...more)
      return { id: other, name: 'other', project: { id: 2n, path: 'others/clusters' } }
    },
  }
}

async function ground(t: Test, unreadBytes: number) {
  const memory = new ReplicaMemory({ unreadBytes, callersBytes: 1 })
  const { forward, port } = await startAgentsServer(t, { components: { memory, directory: twoAgents() as never } })
  /** Makes a call. Its reader takes the first message only. */
  const read = async (agent: FakeAgent, id: AgentId, callerKey: string, pieces: number) => {
    const tunnel = agent.open()
    const controller = new AbortController()
    const reply = await forward(callOf(['x'], { agentId: id, caller: { key: callerKey }, signal: controller.signal }))
    await answer(tunnel, pieces)
    const messages = reply.messages[Symbol.asyncIterator]()
    await messages.next()
    return { tunnel, reply, messages, leave: () => controller.abort(new KasError({ code: 'CANCELLED' })) }
  }
  const dial = (token: string) => FakeAgent.dial(port, token)
  return { memory, read, dial }
}

async function answer(tunnel: FakeTunnel, pieces: number): Promise<void> {
  while ((await tunnel.next())?.kind !== 'closeSend') {
    // skips the caller's own messages
  }
  tunnel.send(encodeConnectRequest.header({}))
  for (let i = 0; i < pieces; i++) tunnel.message(piece)
}

t.test('nothing is left of calls that nobody read, whoever leaves first', async (t) => {
  for (const first of ['caller', 'agent', 'both']) {
    const { memory, read, dial } = await ground(t, 16 * 1024 * KiB)
    const agent = await dial('good')
    const calls = [await read(agent, agentId, 'a', 30), await read(agent, agentId, 'b', 30)]
    await eventually(() => memory.unread.bytes > 2 * 20 * piece.length)
    const leave = () => {
      for (const call of calls) call.leave()
    }
    if (first === 'caller') {
      leave()
      await eventually(() => memory.unread.bytes === 0)
      agent.close()
    } else {
      agent.close()
      if (first === 'agent') for (const { tunnel } of calls) await tunnel.done
      leave()
    }
    await eventually(() => memory.unread.bytes === 0)
    t.pass(`${first} first`)
  }
})

t.test('the caller that leaves most unread, over all agents, loses calls; others lose none', async (t) => {
  const { memory, read, dial } = await ground(t, 2048 * KiB)
  const [one, second] = [await dial('good'), await dial('other')]
  const good = await read(one, agentId, 'good', 12)
  const greedy = []
  for (let i = 0; i < 6; i++)
    greedy.push(await read(i % 2 === 0 ? one : second, i % 2 === 0 ? agentId : other, 'greedy', 28))
  await eventually(() => memory.unread.bytes > 1024 * KiB)
  const ended: KasError[] = []
  for (const { reply } of greedy) void reply.done.then(({ error }) => error && ended.push(error))
  await eventually(() => ended.length >= 3)
  for (const { spec } of ended) t.match(spec, { code: 'REPLICA_MEMORY_FULL', share: 'unread' })
  t.ok(memory.unread.bytes <= 2048 * KiB)
  let bytes = piece.length
  for (let next = await good.messages.next(); bytes < 12 * piece.length; ) {
    bytes += next.value.length
    if (bytes < 12 * piece.length) next = await good.messages.next()
  }
  t.pass('the good caller reads all')
  for (const call of [good, ...greedy]) call.leave()
  for (const agent of [one, second]) agent.close()
  await eventually(() => memory.unread.bytes === 0)
})
