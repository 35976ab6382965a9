import { Registry } from 'prom-client'
import t from 'tap'
import { createMembershipMetrics } from '../../../src/membership/metrics.ts'

t.test('heartbeats are counted by the name that they have on the wire', async (t) => {
  const register = new Registry()
  const zero = () => 0
  const counts = { members: zero, rows: zero, connections: zero, staleSources: zero, unansweredSources: zero }
  const metrics = createMembershipMetrics(register, counts)
  metrics.published('heartbeat')
  metrics.received('heartbeat')
  metrics.received('farewell')
  const values = async (name: string) => (await register.getSingleMetric(name)?.get())?.values
  const counted = async (name: string) =>
    Object.fromEntries((await values(name))?.map(({ labels, value }) => [labels.kind, value]) ?? [])
  t.strictSame(await counted('kas_gossip_published_total'), { delta: 0, beat: 1, farewell: 0, unknown: 0 })
  t.strictSame(await counted('kas_gossip_received_total'), { delta: 0, beat: 1, farewell: 1, unknown: 0 })
})
