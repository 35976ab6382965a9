import t, { type Test } from 'tap'
import type { AgentFeedOptions } from '../../src/kas/modules/views/feed/agent-feed.ts'
import type { Feeds } from '../../src/kas/modules/views/feed/feeds.ts'
import type { Viewer } from '../../src/kas/modules/views/feed/view.ts'
import type { KasError } from '../../src/lib/errors.ts'
import { agentId } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod } from '../support/fake-agent.ts'
import { startFeeds } from '../support/feeds.ts'
import { FreezableFront } from '../support/freezable-front.ts'
import { followMethod, leadMethod, ViewsAgent } from '../support/views-agent.ts'
import { startWholeProcess } from './whole-process.ts'
import { knows, linked, reaches, startWholeReplica, startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/** Views through tunnels of agents and links between replicas, while these are lost. */

const feedsAt = (t: Test, { forward, serves }: WholeReplica, options: Partial<AgentFeedOptions> = {}): Feeds =>
  startFeeds(t, { forward, serves, random: Math.random }, options).feeds

async function agentAt(t: Test, replica: WholeReplica, name: string, methods?: string[]): Promise<ViewsAgent> {
  const agent = await ViewsAgent.start(replica.agentsPort, name, methods)
  t.teardown(() => agent.close())
  return agent
}

/** Records each update: its `from` and number. */
class KeptUpdates implements Viewer {
  readonly got: string[] = []
  error: KasError | undefined

  async update(json: Uint8Array): Promise<void> {
    const { from, seq, state } = JSON.parse(Buffer.from(json).toString())
    this.got.push(`${from ?? state.is} ${seq}`)
  }

  ended(error: KasError): void {
    this.error = error
  }

  async has(...wanted: string[]): Promise<void> {
    const text = () => `${this.got.join(', ')} ${this.error ?? ''}`
    await eventually(() => wanted.every((one) => this.got.includes(one)) || Promise.reject(new Error(text())))
  }
}

const open = (feeds: Feeds) => {
  const viewer = new KeptUpdates()
  feeds.open(agentId, { caller: { key: 'ada' }, as: undefined, query: Buffer.from('{"view":"tree"}') }, viewer)
  return viewer
}

t.test('views enter at any replica, one Follow for all; the next pod has them when the first is lost', async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const first = await agentAt(t, holder, 'pod-a')
  await knows(entry, holder)
  const feeds = feedsAt(t, entry)
  const viewers = Array.from({ length: 50 }, () => open(feeds))
  for (const viewer of viewers) await viewer.has('pod-a 1', 'pod-a 2')
  t.equal(first.heard.filter((step) => step.endsWith('open')).length, 50)
  first.close()
  const second = await agentAt(t, holder, 'pod-b')
  for (const viewer of viewers) await viewer.has('pod-b 1', 'pod-b 2')
  t.equal(second.heard.filter((step) => step.endsWith('open')).length, 50)
  t.notOk(viewers.some(({ error }) => error))
})

t.test('the holder is killed: the views go on by another one', async (t) => {
  const [entry, holder, other] = (await startWholeReplicas(t, 3)) as [WholeReplica, WholeReplica, WholeReplica]
  const first = await agentAt(t, holder, 'pod-a')
  await knows(entry, holder)
  const feeds = feedsAt(t, entry)
  const viewers = Array.from({ length: 50 }, () => open(feeds))
  for (const viewer of viewers) await viewer.has('pod-a 1')
  await holder.kill()
  first.close()
  const began = performance.now()
  await agentAt(t, other, 'pod-b')
  for (const viewer of viewers) await viewer.has('pod-b 1')
  t.comment(`all views again after ${Math.round(performance.now() - began)} ms`)
  for (const viewer of viewers) await viewer.has('pod-b 2')
  t.notOk(viewers.some(({ error }) => error))
})

t.test('the holder is frozen: the views go on by another one, before its connection is given up', async (t) => {
  const holder = await startWholeProcess(t, 'kas-0')
  const timers = { silenceMs: 60_000 }
  const entry = await startWholeReplica(t, 'kas-1', { listed: [holder.address], timers })
  const first = await ViewsAgent.start(holder.agentsPort, 'pod-a')
  t.teardown(() => first.close())
  const isHolder = () => entry.replica.membership.holders(agentId).some(({ row }) => row.instance === holder.instance)
  await eventually(isHolder, entry.replica.membership)
  await reaches(entry, holder.instance)
  const feeds = feedsAt(t, entry)
  const viewers = Array.from({ length: 50 }, () => open(feeds))
  for (const viewer of viewers) await viewer.has('pod-a 2')
  const other = await startWholeReplica(t, 'kas-2', { listed: [holder.address, entry.replica.address], timers })
  await linked(entry, other)
  await agentAt(t, other, 'pod-b')
  await knows(entry, other)
  holder.child.kill('SIGSTOP')
  const began = performance.now()
  for (const viewer of viewers) await viewer.has('pod-b 1')
  t.comment(`all views again after ${Math.round(performance.now() - began)} ms`)
  t.equal(entry.links.link(holder.instance)?.reach, 'unreachable')
  holder.child.kill('SIGCONT')
  await eventually(() => feeds.views === 50 && entry.links.link(holder.instance)?.reach === 'reachable')
  t.notOk(viewers.some(({ error }) => error))
})

t.test('the pod that leads is frozen: the views go on by the next one that leads', async (t) => {
  const [entry, holder] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const front = await FreezableFront.start(t, holder.agentsPort)
  const first = await ViewsAgent.start(front.port, 'pod-a')
  t.teardown(() => first.close())
  await knows(entry, holder)
  const feeds = feedsAt(t, entry)
  const viewers = Array.from({ length: 50 }, () => open(feeds))
  for (const viewer of viewers) await viewer.has('pod-a 2')
  front.freeze()
  const began = performance.now()
  await agentAt(t, holder, 'pod-b')
  for (const viewer of viewers) await viewer.has('pod-b 1', 'pod-b 2')
  t.comment(`all views again after ${Math.round(performance.now() - began)} ms`)
  t.notOk(viewers.some(({ error }) => error))
})

t.test('only the pod that leads is followed, wherever it is', async (t) => {
  const [entry, other] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const follower = await agentAt(t, entry, 'pod-a', [leadMethod])
  await agentAt(t, other, 'pod-b')
  await knows(entry, other)
  const viewer = open(feedsAt(t, entry))
  await viewer.has('pod-b 1', 'pod-b 2')
  t.strictSame(follower.heard, [])
})

t.test('a stock agent is refused at once, wherever it is; one that is away is waited for', async (t) => {
  const [entry, other] = (await startWholeReplicas(t, 2)) as [WholeReplica, WholeReplica]
  const feeds = feedsAt(t, entry)
  const early = open(feeds)
  await eventually(() => feeds.agents === 1 || Promise.reject(new Error('not asked')))
  t.equal(early.error, undefined)
  const agent = await agentAt(t, other, 'pod-a')
  await early.has('pod-a 1')
  agent.close()
  await eventually(() => entry.serves(agentId, followMethod) === undefined || Promise.reject(new Error('held')))
  await agentAt(t, other, 'stock', [echoMethod])
  await knows(entry, other)
  const viewer = open(feedsAt(t, entry))
  await eventually(() => viewer.error !== undefined || Promise.reject(new Error('not refused')))
  t.match(viewer.error, { code: 'VIEWS_NOT_SERVED' })
})
