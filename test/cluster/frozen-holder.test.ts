import t, { type Test } from 'tap'
import { KnownMessages } from '../../src/call/known-messages.ts'
import { defaultSearch, type SearchOptions } from '../../src/kas/router/tunnel-search.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { agentId, callOf, callThrough, readReply } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { FakeAgent } from '../support/fake-agent.ts'
import { patience } from '../support/slowness.ts'
import { startWholeProcess } from './whole-process.ts'
import {
  knows,
  linked,
  reaches,
  startWholeReplica,
  type WholeReplica,
  type WholeReplicaOptions,
} from './whole-replica.ts'

/** A frozen holder (SIGSTOP): its connections stay open, and no bytes arrive on them. */

const known = (...texts: string[]) => new KnownMessages(texts.map((text) => Buffer.from(text)))
/** the table keeps the frozen replica, since the test is about calls */
const patientTable = { silenceMs: 60_000 }

/**
 * Starts a replica in this process that knows a holder in another. An agent of the stock protocol has its tunnels at
 * the holder.
 */
async function entryAndHolder(t: Test, options: WholeReplicaOptions = {}) {
  const holder = await startWholeProcess(t, 'kas-0')
  const listed = [holder.address]
  const entry = await startWholeReplica(t, 'kas-1', { listed, timers: patientTable, ...options })
  const agent = await agentAt(t, holder)
  const { membership } = entry.replica
  const link = () => entry.links.link(holder.instance)
  const tunnel = agent.open()
  await eventually(
    () => membership.holders(agentId).some(({ row }) => row.instance === holder.instance),
    entry.replica.membership,
  )
  await reaches(entry, holder.instance)
  const freeze = () => holder.child.kill('SIGSTOP')
  return { entry, holder, agent, tunnel, freeze, link }
}

async function agentAt(t: Test, replica: Pick<WholeReplica, 'agentsPort'>): Promise<FakeAgent> {
  const agent = await FakeAgent.dial(replica.agentsPort)
  t.teardown(() => agent.close())
  return agent
}

t.test(
  'a stock-protocol agent with tunnels on a frozen replica alone: a clear error soon, not after 20 s',
  async (t) => {
    const { entry, tunnel, freeze } = await entryAndHolder(t)
    void tunnel.serveEcho()
    t.same((await callThrough(entry.forward, ['before'])).messages, ['before'])
    freeze()
    const began = performance.now()
    const calls = [
      entry.forward(callOf(['a'])),
      entry.forward(callOf(['a'], { safety: 'safe' })),
      entry.forward(callOf([], { safety: 'safe', messages: known('a') })),
    ]
    await Promise.all(calls.map((call) => t.rejects(call, { code: 'HOLDER_UNREACHABLE' })))
    const tookMs = performance.now() - began
    const { unreachableMs, findTimeoutMs }: SearchOptions = defaultSearch
    t.ok(tookMs >= unreachableMs, 'it may thaw')
    t.ok(tookMs < patience(findTimeoutMs / 2))
    t.comment(`after ${Math.round(tookMs)} ms`)
  },
)

t.test(
  'calls that a frozen replica has: safe ones go another way, all others end, and are told as what they are',
  async (t) => {
    const { entry, holder, agent, tunnel, freeze, link } = await entryAndHolder(t, { reachability: { lostMs: 2000 } })
    const { reply: begun } = await startCall(entry, 'unsafe', tunnel)
    tunnel.send(encodeConnectRequest.header({ served: ['in part'] }))
    tunnel.message(Buffer.from('part'))
    t.same(await (await begun).metadata, { served: ['in part'] })
    const { reply: unsafe } = await startCall(entry, 'unsafe', agent.open())
    const { reply: safe } = await startCall(entry, 'safe', agent.open())

    const other = await startWholeReplica(t, 'kas-2', { listed: [holder.address, entry.replica.address] })
    await linked(entry, other)
    const served: unknown[] = []
    const elsewhere = await agentAt(t, other)
    for (let i = 0; i < 3; i++) void elsewhere.open().serveEcho((info) => served.push(info))
    await knows(entry, other)
    freeze()
    t.same((await readReply(await safe)).messages, ['a'], 'a safe call goes another way')
    t.not(link()?.reach, 'down', 'and does not wait until the connection is given up')
    t.same((await callThrough(entry.forward, ['new'])).messages, ['new'], 'so does what was not sent')
    const [cut, lost] = [await readReply(await begun), await readReply(await unsafe)]
    t.match(cut, { messages: ['part'], error: { code: 'TUNNEL_LOST' } })
    t.match(lost.error?.spec, { code: 'TUNNEL_LOST', delivery: 'maybe' })
    t.equal(served.length, 2, 'nothing that may have arrived is sent again')
    t.equal(link()?.reach, 'down')
    holder.child.kill('SIGCONT')
    await reaches(entry, holder.instance)
  },
)

/** Starts a call, which arrives at the agent by the only idle tunnel: among several, the choice is undefined. */
async function startCall(entry: WholeReplica, safety: 'safe' | 'unsafe', tunnel: ReturnType<FakeAgent['open']>) {
  const reply = entry.forward(callOf([], { safety, messages: known('a') }))
  const ended = reply.then(async ({ done }) => {
    throw (await done).error ?? new Error('a call ended before it arrived')
  })
  const info = await Promise.race([tunnel.next(), ended])
  if (info?.kind !== 'requestInfo') throw new Error(`a call begins with ${info?.kind}`)
  return { reply }
}
