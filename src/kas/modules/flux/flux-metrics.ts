import { Counter } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

export interface FluxMetrics {
  /** Counts a push that an agent was notified of. */
  notified(): void
  /**
   * Counts a push that an agent was not notified of: a later one to the project replaced it, or GitLab was unreachable
   * too long.
   */
  dropped(): void
}

/** Creates metrics with upstream's names (doc/reference/tunnel-protocol.md 8.1). */
export function createFluxMetrics(register: Registry): FluxMetrics {
  const registers = [register]
  const notified = new Counter({
    name: 'flux_git_push_notifications_total',
    help: 'Pushes that agents were notified of, for their Flux',
    registers,
  })
  const dropped = new Counter({
    name: 'flux_dropped_git_push_notifications_total',
    help: 'Pushes that agents were not notified of: too many at once, or GitLab was away for too long',
    registers,
  })
  return { notified: () => notified.inc(), dropped: () => dropped.inc() }
}
