import { Registry } from 'prom-client'
import t from 'tap'
import { createMembershipMetrics } from '../../../src/membership/metrics.ts'

t.test('heartbeats are counted by the name that they have on the wire', async (t) => {
  const register = new Registry()
  const zero = () => 0
  const counts = { members: zero, rows: zero, connections: zero, staleSources: zero, silentSources: zero }
  const metrics = createMembershipMetrics(register, counts)
  metrics.published('heartbeat')
  metrics.received('heartbeat')
  metrics.received('farewell')
  const values = async (name: string) => (await register.getSingleMetric(name)?.get())?.values
  t.match(await values('kas_gossip_published_total'), [{ labels: { kind: 'beat' }, value: 1 }])
  t.match(await values('kas_gossip_received_total'), [{ labels: { kind: 'beat' } }, { labels: { kind: 'farewell' } }])
})
