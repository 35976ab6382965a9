import { Gauge } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'
import { type Reach, reaches } from './link.ts'

/** How many links to other replicas there are, by whether calls can be handed over on them; asked at each scrape. */
export function createLinkMetrics(register: Registry, replicas: { reaches(): Iterable<Reach> }): void {
  new Gauge({
    name: 'kas_replica_links',
    help: 'Links to other replicas, by whether they answer',
    labelNames: ['reach'],
    registers: [register],
    collect() {
      for (const reach of reaches) this.set({ reach }, 0)
      for (const reach of replicas.reaches()) this.inc({ reach })
    },
  })
}
