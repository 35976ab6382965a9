import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Logger } from '../../../lib/log.ts'
import { clockDelay } from '../../../lib/pause.ts'
import type { Service } from '../../../lib/service.ts'
import type { GitlabClient } from './gitlab-client.ts'
import type { UsageCounters, UsagePart } from './usage-counters.ts'

export interface UsageReportComponents {
  readonly client: Pick<GitlabClient, 'send'>
  readonly counters: Pick<UsageCounters, 'metrics' | 'events' | 'takeDropped'>
  readonly log: Logger
  readonly clock: Clock
}

export interface UsageReportOptions {
  /** upstream's observability.usage_reporting_period, in ms; 0: nothing is reported */
  readonly periodMs: number
  /** the longest that the last report may take, in ms (doc/reference/tunnel-protocol.md 5.3) */
  readonly lastReportMs?: number
}

const defaultLastReportMs = 5000
/** attempts at the end: GitLab may have closed a connection at that moment */
const maxLastTries = 4
const lastRetryMs = 500

/** Calls of one report; the rest waits for the next period. */
const maxCallsInReport = 100

const subjects = {
  metrics: '/internal/kubernetes/usage_metrics',
  events: '/internal/kubernetes/agent_events',
} as const

/**
 * Reports the counters to GitLab every period and once at the end. Usage that GitLab did not accept is reported again.
 */
export class UsageReport implements Service {
  readonly #components: UsageReportComponents
  readonly #options: Required<UsageReportOptions>
  readonly #log: Logger
  readonly #stopped = new AbortController()
  #cancel: () => void = () => undefined
  #running: Promise<unknown> | undefined
  #stopping: Promise<void> | undefined

  constructor(components: UsageReportComponents, options: UsageReportOptions) {
    this.#components = components
    this.#options = { lastReportMs: defaultLastReportMs, ...options }
    this.#log = components.log.child({ mod_name: 'usage_metrics' })
  }

  async start(): Promise<void> {
    if (this.#options.periodMs > 0) this.#schedule()
  }

  /** Resolves after a last report, which takes at most `lastReportMs`, also if `patience` has run out by then. */
  stop(): Promise<void> {
    this.#stopping ??= this.#reportLast()
    return this.#stopping
  }

  async #reportLast(): Promise<void> {
    this.#cancel()
    if (this.#options.periodMs === 0) return
    const cancel = this.#components.clock.after(this.#options.lastReportMs, () =>
      this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' })),
    )
    await this.#running
    const { signal } = this.#stopped
    for (let tries = 1; !(await this.#report(signal)) && tries < maxLastTries; tries++) {
      await clockDelay(this.#components.clock, lastRetryMs, signal).catch(() => undefined) // its limit is reported below
    }
    cancel()
    const { counters } = this.#components
    if (counters.metrics() ?? counters.events())
      this.#log.error('Not all of the usage was reported to GitLab before the end')
  }

  #schedule(): void {
    this.#cancel = this.#components.clock.after(this.#options.periodMs, () => {
      this.#schedule()
      this.#running ??= this.#report(this.#stopped.signal).finally(() => {
        this.#running = undefined
      })
    })
  }

  /** @returns true if everything was reported, or the signal aborted */
  async #report(signal: AbortSignal): Promise<boolean> {
    const { counters } = this.#components
    const dropped = counters.takeDropped()
    if (dropped > 0) this.#log.warn({ count: dropped }, 'Usage was more than is kept for GitLab, some is not reported')
    await Promise.all([
      this.#send(subjects.metrics, () => counters.metrics(), signal),
      this.#send(subjects.events, () => counters.events(), signal),
    ])
    return signal.aborted || !(counters.metrics() ?? counters.events())
  }

  async #send(path: string, next: () => UsagePart | undefined, signal: AbortSignal): Promise<void> {
    for (let calls = 0; calls < maxCallsInReport; calls++) {
      const part = next()
      if (!part) return
      try {
        const { body } = part
        await this.#components.client.send({ method: 'POST', path, body, queue: 'reports', repeatable: false }, signal)
      } catch (error) {
        if (!this.#isPointless(path, KasError.from(error))) return
      }
      part.taken()
    }
  }

  /** True if GitLab would not accept the report the next time either; after other failures it is sent again. */
  #isPointless(path: string, error: KasError): boolean {
    const { spec } = error
    const isAbsent = path === subjects.events && spec.code === 'GITLAB_STATUS' && spec.status === 404 // before 16.8
    const isRejected = spec.code === 'GITLAB_STATUS' && spec.status === 400
    if (isAbsent) this.#log.debug({ url_path: path }, 'This GitLab does not take such reports')
    else if (isRejected)
      this.#log.error({ error, url_path: path }, 'GitLab rejected a usage report, it is not sent again')
    else this.#log.warn({ error, url_path: path }, 'Usage could not be reported, it is sent later')
    return isAbsent || isRejected
  }
}
