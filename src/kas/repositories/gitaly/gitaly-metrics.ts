import { Histogram } from 'prom-client'
import { goCodeName, type KasError } from '../../../lib/errors.ts'
import type { Registry } from '../../../lib/metrics.ts'
import { createLimiterMetrics } from '../../observability/limiter-metrics.ts'

export interface GitalyMetrics {
  /** Sets the gauge of a limit: the limit over all Gitalys, or that of one. */
  limited(address: string | undefined, perSecond: number): void
  /** Removes the gauge of a Gitaly that is no longer used. */
  forgotten(address: string): void
  /** Counts a call that got its turn, or left before it, after so many ms. */
  waited(address: string | undefined, allowed: boolean, ms: number): void
  /** Counts a call that ended. */
  answered(method: string, error: KasError | undefined, seconds: number): void
}

/**
 * Creates metrics with upstream's names for limiters (doc/reference/tunnel-protocol.md 8.1), and with own names for
 * calls.
 */
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
