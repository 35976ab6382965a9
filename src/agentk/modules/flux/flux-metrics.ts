import { Counter } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

export interface FluxMetrics {
  /** A webhook was called, or given up. */
  outcome(outcome: 'called' | 'failed'): void
}

export function createFluxMetrics(register: Registry): FluxMetrics {
  const registers = [register]
  const counters = {
    called: new Counter({ name: 'agentk_flux_webhooks_total', help: 'Webhooks of Flux that were called', registers }),
    failed: new Counter({ name: 'agentk_flux_webhooks_failed_total', help: 'Webhooks that were given up', registers }),
  }
  return { outcome: (outcome) => counters[outcome].inc() }
}
