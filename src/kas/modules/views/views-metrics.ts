import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

export interface ViewsMetrics {
  /** an agent has sent an update of a view */
  updated(bytes: number): void
}

/** @param open - asked at each scrape: views that are open by way of this replica */
export function createViewsMetrics(register: Registry, open: () => number): ViewsMetrics {
  const registers = [register]
  new Gauge({
    name: 'kas_views_open',
    help: 'Views of agents that are open at this replica',
    registers,
    collect() {
      this.set(open())
    },
  })
  const updates = new Counter({
    name: 'kas_views_updates_total',
    help: 'Updates of views that agents have sent',
    registers,
  })
  const bytes = new Counter({
    name: 'kas_views_update_bytes_total',
    help: 'Bytes of updates of views that agents have sent',
    registers,
  })
  return {
    updated: (length) => {
      updates.inc()
      bytes.inc(length)
    },
  }
}
