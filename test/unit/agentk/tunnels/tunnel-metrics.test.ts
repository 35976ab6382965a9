import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createAgentkMetrics } from '../../../../src/agentk/tunnels/tunnel-metrics.ts'
import { createBuildMetrics, createRegistry } from '../../../../src/lib/metrics.ts'

function register() {
  const registry = createRegistry()
  createBuildMetrics(registry, { version: '1.2.3', commit: 'abc' })
  const counts = { idle: 2, active: 3, served: 5 }
  let leads = true
  const webhooks = () => ({ called: 7, failed: 1 })
  createAgentkMetrics(registry, { tunnels: () => counts, connected: () => true, leads: () => leads, webhooks })
  return {
    registry,
    lose: () => {
      leads = false
    },
    counts,
  }
}

t.test('values are those of the moment', async (t) => {
  const { registry, lose, counts } = register()
  const first = await registry.metrics()
  t.match(first, /^agentk_tunnels_idle 2$/m)
  t.match(first, /^agentk_tunnels_active 3$/m)
  t.match(first, /^# TYPE agentk_calls_total counter\nagentk_calls_total 5$/m)
  t.match(first, /^agentk_kas_connected 1$/m)
  t.match(first, /^agentk_leader 1$/m)
  t.match(first, /^agentk_flux_webhooks_total 7$/m)
  t.match(first, /^agentk_flux_webhooks_failed_total 1$/m)
  t.match(first, /^gitlab_build_info\{version="v1\.2\.3",built="unknown",commit="abc"\} 1$/m)
  counts.served = 6
  lose()
  const second = await registry.metrics()
  t.match(second, /^agentk_calls_total 6$/m)
  t.match(second, /^agentk_leader 0$/m)
})

t.test('doc/metrics.md names each metric of agentk, and none that is gone', async (t) => {
  const text = await readFile(join(import.meta.dirname, '../../../../doc/metrics.md'), 'utf8')
  const section = /^## agentk$(.*)/ms.exec(text)?.[1] ?? ''
  const named = [...section.matchAll(/`((?:agentk|gitlab|process)_\w+)`/g)].map(([, name = '']) => name)
  const names = register()
    .registry.getMetricsAsArray()
    .map(({ name }) => name)
  for (const name of named) t.ok(names.includes(name), name)
  for (const name of names) if (name.startsWith('agentk_')) t.ok(named.includes(name), name)
  t.ok(named.length > 5)
})
