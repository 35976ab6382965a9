import t, { type Test } from 'tap'
import type { Call, Reply } from '../../src/call/call.ts'
import type { Caller } from '../../src/call/caller.ts'
import { KasError } from '../../src/lib/errors.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, readReply } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { knows, startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/**
 * A caller that has most of an agent's tunnels, beside another that needs one: at the holder, and through another
 * entry.
 */

const count = 8
const greedy: Caller = { name: 'user 1', key: 'one' }
const other: Caller = { name: 'user 2', key: 'two' }

interface Ground {
  readonly entry: WholeReplica
  readonly holder: WholeReplica
  readonly agent: FakeAgent
}

async function ground(t: Test): Promise<Ground> {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const agent = await FakeAgent.dial(holder.agentsPort)
  t.teardown(() => agent.close())
  for (let i = 0; i < count; i++) openTunnel(agent)
  await knows(entry, holder)
  await eventually(() => {
    const { idle } = holder.tunnels.counts(agentId, echoMethod)
    if (idle !== count) throw new Error(`${idle} tunnels are idle`)
  })
  return { entry, holder, agent }
}

/** Opens a tunnel that answers its call and never ends it. */
function openTunnel(agent: FakeAgent): void {
  const tunnel = agent.open()
  void (async () => {
    for (let message = await tunnel.next(); message; message = await tunnel.next())
      if (message.kind === 'requestInfo') tunnel.send(encodeConnectRequest.header({}))
  })().catch(() => undefined) // its call was cancelled
}

/** Makes a call that goes on until its caller leaves. */
async function hold({ forward }: WholeReplica, caller: Caller, overrides: Partial<Call> = {}) {
  const controller = new AbortController()
  const reply: Reply = await forward(callOf(['a'], { caller, signal: controller.signal, ...overrides }))
  const read = readReply(reply)
  return async () => {
    controller.abort(new KasError({ code: 'CANCELLED' }))
    await read
  }
}

for (const from of ['entry', 'holder'] as const) {
  t.test(`asked from the ${from}: who holds all is refused, once another waits, and told why`, async (t) => {
    const { holder, agent, [from]: asked } = await ground(t)
    const leaves = await Promise.all(
      Array.from({ length: count }, (_, i) => hold(i % 2 ? asked : holder, greedy, { isWatch: i < 2 })),
    )
    const waits = hold(from === 'entry' ? holder : asked, other)
    const refused = await asked.forward(callOf(['a'], { caller: greedy })).then(
      () => t.fail('he has another one'),
      (error: unknown) => KasError.from(error),
    )
    t.match(refused, {
      spec: { code: 'CALLER_OVER_SHARE', agentId: '42', held: count, living: count, watches: 2 },
    })
    await leaves[0]?.()
    openTunnel(agent)
    const leave = await waits
    for (const each of [leave, ...leaves.slice(1)]) await each()
  })
}

t.test('a watch is recalled for who waits, and a replica that leaves lets its watches go', async (t) => {
  const { entry, holder, agent } = await ground(t)
  const watch = { caller: greedy, isWatch: true }
  const replies = await Promise.all(Array.from({ length: count }, () => entry.forward(callOf(['a'], watch))))
  const ends = replies.map((reply) => readReply(reply).then(({ error }) => error?.code))
  const waits = hold(entry, other)
  t.equal(await Promise.race(ends), 'WATCH_RECALLED')
  openTunnel(agent)
  const leave = await waits
  t.equal(holder.tunnels.watches().length, count - 1)
  for (const tunnel of holder.tunnels.watches()) tunnel.lose()
  const codes = await Promise.all(ends)
  t.same(codes.sort(), [...Array(count - 1).fill('TUNNEL_LOST'), 'WATCH_RECALLED'])
  await leave()
})

t.test(
  'of what another replica carries for its callers, the holder knows which are watches and followed logs',
  async (t) => {
    const { entry, holder } = await ground(t)
    const kinds: Partial<Call>[] = [{ isWatch: true }, { isLog: true }, {}]
    const replies = await Promise.all(kinds.map((kind) => entry.forward(callOf(['a'], { caller: other, ...kind }))))
    const ends = replies.map((reply) => readReply(reply).then(({ error }) => error?.spec))
    await eventually(() => {
      const counts = [holder.tunnels.watches().length, holder.tunnels.logs().length]
      if (counts.join() !== '1,1') throw new Error(`${counts} run`)
    })
    for (const log of holder.tunnels.logs()) log.lose()
    t.match(await ends[1], { code: 'TUNNEL_LOST', delivery: 'maybe' })
    t.equal(holder.tunnels.watches().length, 1)
    for (const watch of holder.tunnels.watches()) watch.lose()
    t.match(await ends[0], { code: 'TUNNEL_LOST' })
    t.equal(await Promise.race([ends[2], new Promise(setImmediate).then(() => 'runs')]), 'runs')
  },
)
