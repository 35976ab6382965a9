import { Counter, Histogram } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'
import type { RouterObserver } from './router.ts'

/** Upstream's names (doc/reference/tunnel-protocol.md 8.1). doc/reference/metrics.md says what each is good for. */
export function createRouterMetrics(register: Registry): RouterObserver {
  const duration = new Histogram({
    name: 'k8s_api_proxy_routing_duration_seconds',
    help: 'Time from a call to the tunnel that takes it',
    labelNames: ['status'] as const,
    buckets: Array.from({ length: 8 }, (_, i) => 0.001 * 4 ** i),
    registers: [register],
  })
  const timeouts = new Counter({
    name: 'k8s_api_proxy_routing_timeout_total',
    help: 'Calls for which no tunnel was found in time',
    registers: [register],
  })
  for (const status of ['success', 'aborted']) duration.zero({ status })
  return {
    routed: (status, seconds) => duration.observe({ status }, seconds),
    timedOut: () => timeouts.inc(),
  }
}
