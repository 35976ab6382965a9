import { Counter, Gauge } from 'prom-client'
import { type ErrorCode, errorCodes } from '../../../../lib/errors.ts'
import type { Registry } from '../../../../lib/metrics.ts'

/** Outcomes of requests, each with a series from the start. */
export const outcomes = [
  /** the cluster's answer was passed on completely */
  'answered',
  /** a connection was upgraded, and ended in order */
  'upgraded',
  /** kas answered a preflight */
  'preflight',
  /** kas answered with a token for a WebSocket */
  'token',
  /** a front was redirected to the replica that holds the agent */
  'redirected',
  /** a page whose origin is not allowed */
  'foreign_origin',
  /** kas answered with an error */
  'failed',
  /** failed after the status line, or where kubectl would repeat a command after an error: the connection was cut */
  'cut',
  /** the caller left first */
  'left',
] as const

/** `endpoint`: answered by one of kas' own endpoints; it has no series before the first */
export type RequestOutcome = (typeof outcomes)[number] | 'endpoint'

export interface KubernetesMetrics {
  ended(outcome: RequestOutcome): void
  /** Counts an error with which kas answered or cut a WebSocket, malformed requests included. */
  failed(code: ErrorCode): void
  /** Counts a watch that was lost, and resumed elsewhere. */
  watchResumed(): void
}

/**
 * Creates the metrics. Counts in plain numbers, which each scrape reads, because a labelled counter costs too much per
 * request.
 *
 * @param running - returns the number of open requests and upgraded connections, at each scrape
 */
export function createKubernetesMetrics(register: Registry, running: () => number): KubernetesMetrics {
  const registers = [register]
  const ended = new Map<RequestOutcome, number>(outcomes.map((outcome) => [outcome, 0]))
  const failures = new Map<ErrorCode, number>(errorCodes.map((code) => [code, 0]))
  new Counter({
    name: 'kas_kubernetes_requests_total',
    help: 'Requests to the Kubernetes API proxy, by how they ended',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset()
      for (const [outcome, count] of ended) this.inc({ outcome }, count)
    },
  })
  new Counter({
    name: 'kas_kubernetes_errors_total',
    help: 'Errors that the Kubernetes API proxy answered with, malformed requests included, by code (doc/reference/errors.md)',
    labelNames: ['code'],
    registers,
    collect() {
      this.reset()
      for (const [code, count] of failures) this.inc({ code }, count)
    },
  })
  new Gauge({
    name: 'kas_kubernetes_requests_in_flight',
    help: 'Requests and upgraded connections that the Kubernetes API proxy serves now',
    registers,
    collect() {
      this.set(running())
    },
  })
  const resumed = new Counter({
    name: 'kas_kubernetes_watches_resumed_total',
    help: 'Watches that went on where they were lost, opened again behind the last event that their client had',
    registers,
  })
  return {
    watchResumed: () => resumed.inc(),
    ended: (outcome) => void ended.set(outcome, (ended.get(outcome) ?? 0) + 1),
    failed: (code) => void failures.set(code, (failures.get(code) ?? 0) + 1),
  }
}

/** @param asked.checkMs - returns the period between two access checks of a caller, at each scrape. ms */
export function createSessionMetrics(
  register: Registry,
  asked: { readonly sessions: () => number; readonly checkMs: () => number },
): void {
  const registers = [register]
  new Gauge({
    name: 'kas_kubernetes_sessions',
    help: 'Requests, upgraded connections and WebSockets on 8154 whose callers were let in, which kas sessions can end',
    registers,
    collect() {
      this.set(asked.sessions())
    },
  })
  new Gauge({
    name: 'kas_kubernetes_access_check_seconds',
    help: 'From one question to the next about whether the caller of what runs still may; more than 50: there are too many for gitlab.api_rate_limit',
    registers,
    collect() {
      this.set(asked.checkMs() / 1000)
    },
  })
}
