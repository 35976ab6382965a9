import t from 'tap'
import type { Reach } from '../../../../src/kas/replicas/link.ts'
import { createLinkMetrics } from '../../../../src/kas/replicas/links.ts'
import { createRegistry } from '../../../../src/lib/metrics.ts'

t.test('links are counted by whether they answer, anew at each scrape', async (t) => {
  const register = createRegistry()
  let now: Reach[] = ['reachable', 'reachable', 'down']
  createLinkMetrics(register, { reaches: () => now })
  const counts = async () => {
    const { values = [] } = (await register.getSingleMetric('kas_replica_links')?.get()) ?? {}
    return Object.fromEntries(values.map(({ labels, value }) => [labels.reach, value]))
  }
  t.strictSame(await counts(), { reachable: 2, suspect: 0, unreachable: 0, down: 1 })
  now = ['suspect', 'unreachable']
  t.strictSame(await counts(), { reachable: 0, suspect: 1, unreachable: 1, down: 0 })
})
