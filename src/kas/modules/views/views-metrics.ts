import { Counter, Gauge } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

export interface ViewsMetrics {
  /** Counts an update of a view from an agent. */
  updated(bytes: number): void
}

/** @param open - returns the open views of this replica; called at each scrape */
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
