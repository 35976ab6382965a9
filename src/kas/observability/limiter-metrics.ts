import { Gauge, Histogram } from 'prom-client'
import type { Registry } from '../../lib/metrics.ts'

/** Metrics of limiters, by their names; there are only a few. */
export interface LimiterMetrics {
  limited(limiter: string, perSecond: number): void
  /** a call got its turn, or was refused, after this wait */
  waited(limiter: string, allowed: boolean, ms: number): void
  /** the limiter was removed */
  forgotten(limiter: string): void
}

const limitName = 'limiter_limit'
const blockedName = 'limiter_block_duration_milliseconds'

/**
 * Creates metrics with upstream's names (doc/reference/tunnel-protocol.md 8.1), one pair for all limiters of a
 * registry.
 */
export function createLimiterMetrics(register: Registry): LimiterMetrics {
  const limit = (register.getSingleMetric(limitName) as Gauge | undefined) ?? createLimit(register)
  const blocked = (register.getSingleMetric(blockedName) as Histogram | undefined) ?? createBlocked(register)
  return {
    limited: (limiter_name, perSecond) => limit.set({ limiter_name, unit: 'per_second' }, perSecond),
    waited: (limiter_name, allowed, ms) => blocked.observe({ limiter_name, allowed: String(allowed) }, ms),
    forgotten(limiter_name) {
      limit.remove({ limiter_name, unit: 'per_second' })
      for (const allowed of ['true', 'false']) blocked.remove({ limiter_name, allowed })
    },
  }
}

function createLimit(register: Registry): Gauge {
  const labelNames = ['limiter_name', 'unit']
  return new Gauge({ name: limitName, help: 'Calls that may begin', labelNames, registers: [register] })
}

function createBlocked(register: Registry): Histogram {
  return new Histogram({
    name: blockedName,
    help: 'Time that a call waited for its turn',
    labelNames: ['limiter_name', 'allowed'],
    buckets: [1, 10, 100, 1000, 10_000],
    registers: [register],
  })
}
