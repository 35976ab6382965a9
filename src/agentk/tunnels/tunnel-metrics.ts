import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'
import type { KasConnections } from './kas-connections.ts'

/** Creates metrics whose values are read at each scrape, so that they cost calls nothing. */
export function createTunnelMetrics(register: Registry, kas: Pick<KasConnections, 'connected' | 'counts'>): void {
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
  gauge('agentk_tunnels_idle', 'Tunnels that wait for a call', () => kas.counts.idle)
  gauge('agentk_tunnels_active', 'Tunnels that carry a call', () => kas.counts.active)
  gauge('agentk_kas_connected', '1 while there is a connection to kas', () => Number(kas.connected))
  new Counter({
    name: 'agentk_calls_total',
    help: 'Calls that kas has sent',
    registers,
    collect() {
      this.reset()
      this.inc(kas.counts.served)
    },
  })
}
