import { Counter, Histogram } from 'prom-client'
import type { Registry } from '../../../lib/metrics.ts'
import { createLimiterMetrics } from '../../observability/limiter-metrics.ts'
import type { GitlabCallLimitEvents } from './gitlab-call-limit.ts'

export interface GitlabMetrics extends GitlabCallLimitEvents {
  /** Counts an answer. @param status - HTTP status; 0: no answer */
  answered(path: string, status: number, seconds: number): void
  /** Counts an unknown credential that was refused because too many others wait for a check. */
  unchecked(kind: 'agents' | 'users'): void
}

const limiterName = 'gitlab_client'

/**
 * Creates metrics with upstream's names for the limiter (doc/reference/tunnel-protocol.md 8.1), and own names for
 * calls.
 */
export function createGitlabMetrics(register: Registry, limit: { refillPerSecond: number }): GitlabMetrics {
  const limiters = createLimiterMetrics(register)
  limiters.limited(limiterName, limit.refillPerSecond)
  const duration = new Histogram({
    name: 'kas_gitlab_call_duration_seconds',
    help: 'Time that GitLab took to answer a call, by path below /api/v4 and status; no status: no answer',
    labelNames: ['path', 'status'],
    buckets: [0.01, 0.05, 0.2, 1, 5, 20],
    registers: [register],
  })
  const unchecked = new Counter({
    name: 'kas_gitlab_credentials_unchecked_total',
    help: 'Unknown credentials that were refused without a question to GitLab, of agents or of users and jobs',
    labelNames: ['kind'],
    registers: [register],
  })
  for (const kind of ['agents', 'users']) unchecked.inc({ kind }, 0)
  return {
    unchecked: (kind) => unchecked.inc({ kind }),
    waited: (allowed, ms) => limiters.waited(limiterName, allowed, ms),
    answered: (path, status, seconds) =>
      duration.observe({ path, status: status === 0 ? 'none' : String(status) }, seconds),
  }
}
