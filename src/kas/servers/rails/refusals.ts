import { Counter } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'
import type { NewcomerRefusal } from '../newcomers.ts'

const reasons: readonly NewcomerRefusal[] = ['too_slow', 'too_many_connections']

/** @returns counts one */
export function createRailsRefusalMetrics(register: Registry): (reason: NewcomerRefusal) => void {
  const counter = new Counter({
    name: 'kas_api_refused_total',
    help: 'Connections that were refused where GitLab calls, for no call of GitLab came by them',
    labelNames: ['reason'] as const,
    registers: [register],
  })
  for (const reason of reasons) counter.inc({ reason }, 0)
  return (reason) => counter.inc({ reason })
}
