import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../lib/metrics.ts'

/** What the metrics are read from, at each scrape: nothing is counted twice, and calls pay nothing. */
export interface MetricSources {
  readonly tunnels: () => { idle: number; active: number; served: number }
  readonly connected: () => boolean
  readonly leads: () => boolean
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
  new Counter({
    name: 'agentk_calls_total',
    help: 'Calls that kas has sent',
    registers,
    collect() {
      this.reset()
      this.inc(sources.tunnels().served)
    },
  })
}
