import { Histogram } from 'prom-client'
import { goCodeName, type KasError } from '../../../lib/errors.ts'
import type { Registry } from '../../../lib/metrics.ts'
import { createLimiterMetrics } from '../../observability/limiter-metrics.ts'

export interface GitalyMetrics {
  /** a limit is in force: over all Gitalys, or that of one */
  limited(address: string | undefined, perSecond: number): void
  /** a Gitaly is forgotten */
  forgotten(address: string): void
  /** a call got its turn, or did not, after so long */
  waited(address: string | undefined, allowed: boolean, ms: number): void
  /** a call ended */
  answered(method: string, error: KasError | undefined, seconds: number): void
}

/** Upstream's names of the limiters (doc/reference/tunnel-protocol.md 8.1), and ours of the calls. */
export function createGitalyMetrics(register: Registry): GitalyMetrics {
  const limiters = createLimiterMetrics(register)
  const duration = new Histogram({
    name: 'kas_gitaly_call_duration_seconds',
    help: 'Time that Gitaly took to answer a call whole, by method and gRPC status; a deadline of kas counts too',
    labelNames: ['grpc_method', 'grpc_code'],
    buckets: [0.01, 0.05, 0.2, 1, 5, 30],
    registers: [register],
  })
  return {
    limited: (address, perSecond) => limiters.limited(nameOf(address), perSecond),
    forgotten: (address) => limiters.forgotten(nameOf(address)),
    waited: (address, allowed, ms) => limiters.waited(nameOf(address), allowed, ms),
    answered(method, error, seconds) {
      const grpc_method = method.slice(method.lastIndexOf('/') + 1)
      const grpc_code = goCodeName(error?.grpcCode ?? 0) ?? 'Unknown'
      duration.observe({ grpc_method, grpc_code }, seconds)
    },
  }
}

const nameOf = (address: string | undefined) => `gitaly_client_${address ?? 'global'}`
