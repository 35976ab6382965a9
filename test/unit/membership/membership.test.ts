import { Registry } from 'prom-client'
import t from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import { Membership } from '../../../src/membership/membership.ts'
import type { GossipComponents, GossipNetwork } from '../../../src/membership/network/gossip.ts'
import { encodeNews } from '../../../src/membership/table/row-codec.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { entry, head, instance } from './rows.ts'

const other = instance('other')

/** A replica that is connected with another one, whose row has no agents yet. */
async function start() {
  const { log, lines } = capturedLog()
  const register = new Registry()
  let heard: GossipComponents | undefined
  const createGossip = (components: GossipComponents): GossipNetwork => {
    heard = components
    return {
      instance: instance('own'),
      port: 8156,
      start: async () => undefined,
      stop: async () => undefined,
      publish: () => undefined,
      pull: async () => ({ instance: other, version: 1, head: { ...head, name: 'kas-1' }, connections: [] }),
      cut: () => undefined,
      isConnected: (one) => one === other,
      connected: () => [other],
      hostOf: () => '127.0.0.1',
      dial: async () => ({ kind: 'self' }),
    }
  }
  const membership = new Membership(
    { log, clock: new ManualClock(), sources: [], metrics: register, createGossip },
    {
      name: 'kas-0',
      secret: new Uint8Array(32),
      listen: { port: 8156 },
      replica: { port: 8155 },
      publicKeyHash: 'ab'.repeat(32),
      kasVersion: '0.1.0',
    },
  )
  const started = membership.start()
  heard?.connected(other)
  await started
  const receive = (agentId: number, from: number) => {
    const delta = { from, to: from + 1, removed: [], added: [entry(`c${from}`, agentId)] }
    return heard?.received(other, encodeNews(other, { kind: 'delta', delta }))
  }
  const refused = async () =>
    (await register.getSingleMetric('kas_gossip_refused_total')?.get())?.values.filter(({ value }) => value > 0)
  return { membership, receive, refused, lines }
}

t.test('a listener that fails is told of as an error here, and keeps nobody from hearing', async (t) => {
  const { membership, receive, refused, lines } = await start()
  const before: unknown[] = []
  const after: unknown[] = []
  membership.onChange(({ agentIds }) => before.push(agentIds))
  membership.onChange(() => {
    throw new Error('a fault of ours')
  })
  membership.onChange(({ agentIds }) => after.push(agentIds))
  t.equal(receive(42, 1), true)
  t.strictSame(before, [new Set([42n])])
  t.strictSame(after, before)
  t.match(lines, [{ level: 'error', error: { message: 'a fault of ours' } }])
  t.strictSame(await refused(), [])
  t.equal(membership.holders(42n as AgentId).length, 1)
  await membership.stop()
})

t.test('who hears of own pods may fail too', async (t) => {
  const { membership, lines } = await start()
  const after: AgentId[] = []
  membership.onOwnPods(() => {
    throw new Error('a fault of ours')
  })
  membership.onOwnPods((agentId) => after.push(agentId))
  t.equal(membership.addConnection(entry('1')), true)
  t.strictSame(after, [42n])
  t.strictSame([...membership.ownPods(42n as AgentId)], ['pod-1'])
  t.equal(lines.length, 1)
  await membership.stop()
})
