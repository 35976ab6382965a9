import { Counter } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'

/** @returns counts one */
export function createStrangersMetric(register: Registry): () => void {
  const counter = new Counter({
    name: 'kas_replica_strangers_total',
    help: 'Connections to the private API that have not shown the key of a replica',
    registers: [register],
  })
  return () => counter.inc()
}
