import { Gauge, Histogram } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'
import type { CallGateEvents } from './call-gate.ts'

export interface GitlabMetrics extends CallGateEvents {
  /** @param status - of HTTP; 0: none came */
  answered(path: string, status: number, seconds: number): void
}

export const noGitlabMetrics: GitlabMetrics = { answered: () => undefined, waited: () => undefined }

const limiter_name = 'gitlab_client'

/** Upstream's names of the limiter (wire-protocol 8.1), and ours of the calls. */
export function createGitlabMetrics(register: Registry, limit: { refillPerSecond: number }): GitlabMetrics {
  const registers = [register]
  const labelNames = ['limiter_name', 'unit'] as const
  new Gauge({ name: 'limiter_limit', help: 'Calls that may begin', labelNames, registers }).set(
    { limiter_name, unit: 'per_second' },
    limit.refillPerSecond,
  )
  const blocked = new Histogram({
    name: 'limiter_block_duration_milliseconds',
    help: 'Time that a call waited for its turn',
    labelNames: ['limiter_name', 'allowed'],
    buckets: [1, 10, 100, 1000, 10_000],
    registers,
  })
  const duration = new Histogram({
    name: 'kas_gitlab_call_duration_seconds',
    help: 'Time that GitLab took to answer a call, by path below /api/v4 and status; no status: no answer',
    labelNames: ['path', 'status'],
    buckets: [0.01, 0.05, 0.2, 1, 5, 20],
    registers,
  })
  return {
    waited: (allowed, ms) => blocked.observe({ limiter_name, allowed: String(allowed) }, ms),
    answered: (path, status, seconds) =>
      duration.observe({ path, status: status === 0 ? 'none' : String(status) }, seconds),
  }
}
