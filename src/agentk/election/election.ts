import { Advice } from '../../lib/advice.ts'
import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Logger } from '../../lib/log.ts'
import { pause } from '../../lib/pause.ts'
import type { Service } from '../../lib/service.ts'
import { LeaderRule, type LeaderTimes, type LeaseRecord, type Moment, stockTimes } from './leader-rule.ts'

/** Access to Leases of the cluster. */
export interface Leases {
  read(name: string, signal: AbortSignal): Promise<LeaseRecord | undefined>
  write(
    name: string,
    next: Omit<LeaseRecord, 'resourceVersion'>,
    known: LeaseRecord | undefined,
    signal: AbortSignal,
  ): Promise<LeaseRecord | undefined>
  /** Returns the next step for an error of `read` or `write`; undefined: the error says all that is known. */
  nextStep?(error: unknown, name: string): string | undefined
}

export interface ElectionComponents {
  readonly leases: Leases
  readonly log: Logger
  readonly clock: Clock
  readonly random: () => number
  readonly now?: () => Moment
}

interface OwnLease {
  readonly name: string
  readonly record: LeaseRecord
}

/** Chooses one pod of the agent, by a Lease, for work that must not be done twice. Every pod serves calls. */
export class Election implements Service {
  readonly identity: string
  readonly #components: ElectionComponents
  readonly #times: LeaderTimes
  readonly #now: () => Moment
  readonly #rule: LeaderRule
  readonly #stopping = new AbortController()
  readonly #listeners = new Listeners()
  /** resolves with the lease if this pod has it, and so can give it back */
  #running: Promise<OwnLease | undefined> | undefined
  #notified = ''
  #failed = false
  readonly #advice = new Advice()

  constructor(
    components: ElectionComponents,
    options: {
      /** unique to this process: a pod that restarts is another candidate */
      readonly identity: string
      readonly times?: LeaderTimes
    },
  ) {
    this.identity = options.identity
    this.#components = components
    this.#times = options.times ?? stockTimes
    this.#now = components.now ?? (() => ({ monotonic: performance.now(), wall: Date.now() }))
    this.#rule = new LeaderRule(options.identity, this.#times, this.#now)
  }

  /** True if this pod may act. Ask before each action: a process that was frozen gets no notice. */
  holds(): boolean {
    return this.#rule.holds()
  }

  /** Identity of the leader as far as this pod knows; empty: none. */
  get leader(): string {
    return this.#rule.holder
  }

  /** Calls `listener` when `holds` or `leader` may have changed. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  /** Begins to stand for election. The first configuration gives the name; later calls change nothing. */
  begin(leaseName: string): void {
    if (!this.#stopping.signal.aborted) this.#running ??= this.#run(leaseName)
  }

  async start(): Promise<void> {}

  /** Gives the lease back, so that another pod leads at once. */
  async leave(patience?: AbortSignal): Promise<void> {
    this.#stopping.abort(new KasError({ code: 'CANCELLED', detail: 'agentk is stopping' }))
    const lease = await this.#running
    this.#running = undefined
    if (lease) await this.#release(lease, patience)
  }

  stop(patience?: AbortSignal): Promise<void> {
    return this.leave(patience)
  }

  async #run(name: string): Promise<OwnLease | undefined> {
    const { clock, leases, log, random } = this.#components
    const { signal } = this.#stopping
    let known: LeaseRecord | undefined
    while (!signal.aborted) {
      try {
        const options = { ms: this.#times.renewDeadlineMs / 2, signals: [signal] }
        known = await withDeadline(options, (timely) => this.#attempt(name, timely))
        this.#failed = false
        this.#advice.forget()
      } catch (error) {
        const advice = this.#advice.fields(leases.nextStep?.(error, name))
        const isNew = !this.#failed || advice.next_step !== undefined
        if (isNew && !signal.aborted) log.warn({ error, lease: name, ...advice }, 'Cannot use the lease, trying on')
        this.#failed = true
      }
      this.#notify()
      await pause(this.#times.retryMs * (1 + 0.2 * random()), clock, signal)
      this.#notify() // the term may have ended during the pause
    }
    return known?.holder === this.identity ? { name, record: known } : undefined
  }

  /** Does one round. @returns the lease as it is now */
  async #attempt(name: string, signal: AbortSignal): Promise<LeaseRecord | undefined> {
    const { leases } = this.#components
    const startedAt = this.#now()
    const known = await leases.read(name, signal)
    const step = this.#rule.observe(known)
    if (step === 'wait') return known
    const time = microTime(startedAt.wall)
    const next = {
      holder: this.identity,
      durationSeconds: Math.ceil(this.#times.leaseMs / 1000),
      acquireTime: step === 'renew' && known ? known.acquireTime : time,
      renewTime: time,
      transitions: step === 'take' && known ? known.transitions + 1 : (known?.transitions ?? 0),
    }
    const written = await leases.write(name, next, known, signal)
    if (written) this.#rule.granted(written, startedAt)
    return written ?? known
  }

  async #release({ name, record }: OwnLease, patience?: AbortSignal): Promise<void> {
    this.#rule.released()
    this.#notify()
    const { leases, log } = this.#components
    const next = { ...record, holder: '', durationSeconds: 1, renewTime: microTime(this.#now().wall) }
    const options = { ms: this.#times.retryMs, signals: [patience] }
    await withDeadline(options, (signal) => leases.write(name, next, record, signal)).catch((error: unknown) =>
      log.warn({ error, lease: name }, 'Cannot give the lease back'),
    )
  }

  #notify(): void {
    const state = `${this.holds()} ${this.leader}`
    if (state === this.#notified) return
    this.#notified = state
    this.#listeners.notify()
  }
}

/** Formats a metav1.MicroTime. */
function microTime(wall: number): string {
  return new Date(wall).toISOString().replace('Z', '000Z')
}
