import { Registry } from 'prom-client'
import t from 'tap'
import { createKubernetesMetrics, outcomes } from '../../../../../../src/kas/servers/kubernetes/http/metrics.ts'

t.test('counts', async (t) => {
  const register = new Registry()
  const metrics = createKubernetesMetrics(register, () => 3)
  metrics.ended('answered')
  metrics.ended('answered')
  metrics.failed('BAD_REQUEST')
  for (let scrape = 0; scrape < 2; scrape++) {
    const lines = (await register.metrics()).split('\n')
    t.ok(lines.includes('kas_kubernetes_requests_total{outcome="answered"} 2'))
    t.ok(lines.includes('kas_kubernetes_errors_total{code="BAD_REQUEST"} 1'))
    t.ok(lines.includes('kas_kubernetes_requests_in_flight 3'))
    for (const outcome of outcomes)
      t.ok(
        lines.some((line) => line.includes(`outcome="${outcome}"`)),
        outcome,
      )
  }
})
