import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'

/** What the metrics are read from, at each scrape: nothing is counted twice, and calls pay nothing. */
export interface MetricSources {
  readonly tunnels: () => { idle: number; active: number; served: number }
  readonly connected: () => boolean
  readonly leads: () => boolean
  /** of Flux */
  readonly webhooks: () => { called: number; failed: number }
}

/** What only agentk has. */
export function createAgentkMetrics(register: Registry, sources: MetricSources): void {
  const registers = [register]
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  gauge('agentk_tunnels_idle', 'Tunnels that wait for a call', () => sources.tunnels().idle)
  gauge('agentk_tunnels_active', 'Tunnels that carry a call', () => sources.tunnels().active)
  gauge('agentk_kas_connected', '1 while there is a connection to kas', () => Number(sources.connected()))
  gauge('agentk_leader', '1 while this pod leads', () => Number(sources.leads()))
  const counter = (name: string, help: string, read: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset()
        this.inc(read())
      },
    })
  counter('agentk_calls_total', 'Calls that kas has sent', () => sources.tunnels().served)
  counter('agentk_flux_webhooks_total', 'Webhooks of Flux that were called', () => sources.webhooks().called)
  counter('agentk_flux_webhooks_failed_total', 'Webhooks that were given up', () => sources.webhooks().failed)
}
