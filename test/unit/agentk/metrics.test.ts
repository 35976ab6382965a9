import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createFluxMetrics } from '../../../src/agentk/modules/flux/module.ts'
import { createGitopsMetrics } from '../../../src/agentk/modules/gitops/state/gitops-metrics.ts'
import { createLeader } from '../../../src/agentk/modules/leader/module.ts'
import { createViewsMetrics } from '../../../src/agentk/modules/views/views-metrics.ts'
import { createTunnelMetrics } from '../../../src/agentk/tunnels/tunnel-metrics.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { createBuildMetrics, createRegistry } from '../../../src/lib/metrics.ts'
import { capturedLog } from '../../support/captured-log.ts'

function register() {
  const registry = createRegistry()
  createBuildMetrics(registry, { version: '1.2.3', commit: 'abc' })
  const counts = { idle: 2, active: 3, served: 5 }
  let leads = true
  createTunnelMetrics(registry, { counts, connected: true })
  const election = { identity: 'own', leader: 'own', holds: () => leads, onChange: () => undefined }
  createLeader({ election, register: registry, clock: systemClock, log: () => capturedLog().log })
  const webhooks = createFluxMetrics(registry)
  createGitopsMetrics(registry)
  createViewsMetrics(registry)
  return {
    registry,
    lose: () => {
      leads = false
    },
    counts,
    webhooks,
  }
}

t.test('values are those of the moment', async (t) => {
  const { registry, lose, counts, webhooks } = register()
  for (const outcome of ['called', 'called', 'failed'] as const) webhooks.outcome(outcome)
  const first = await registry.metrics()
  t.match(first, /^agentk_tunnels_idle 2$/m)
  t.match(first, /^agentk_tunnels_active 3$/m)
  t.match(first, /^# TYPE agentk_calls_total counter\nagentk_calls_total 5$/m)
  t.match(first, /^agentk_kas_connected 1$/m)
  t.match(first, /^agentk_leader 1$/m)
  t.match(first, /^agentk_flux_webhooks_total 2$/m)
  t.match(first, /^agentk_flux_webhooks_failed_total 1$/m)
  t.match(first, /^gitlab_build_info\{version="v1\.2\.3",built="unknown",commit="abc"\} 1$/m)
  counts.served = 6
  lose()
  const second = await registry.metrics()
  t.match(second, /^agentk_calls_total 6$/m)
  t.match(second, /^agentk_leader 0$/m)
})

t.test('doc/reference/metrics.md names each metric of agentk, and none that is gone', async (t) => {
  const text = await readFile(join(import.meta.dirname, '../../../doc/reference/metrics.md'), 'utf8')
  const section = /^## agentk$(.*)/ms.exec(text)?.[1] ?? ''
  const named = [...section.matchAll(/`((?:agentk|gitlab|process)_\w+)`/g)].map(([, name = '']) => name)
  const names = register()
    .registry.getMetricsAsArray()
    .map(({ name }) => name)
  for (const name of named) t.ok(names.includes(name), name)
  for (const name of names) if (name.startsWith('agentk_')) t.ok(named.includes(name), name)
  t.ok(named.length > 5)
})
