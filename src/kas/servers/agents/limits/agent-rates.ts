import { Counter } from 'prom-client'
import type { AgentId } from '../../../../call/call.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import type { Registry } from '../../../../lib/metrics.ts'
import { clockDelay } from '../../../../lib/pause.ts'
import { RateLimits } from '../../../../lib/rate-limit.ts'
import type { MethodRate } from '../../../agent-method.ts'

/** Agents with a used rate that a method keeps; rested agents need no entry. */
const maxAgents = 10_000
/** Longest wait of a call that is beyond its method's rate; others are refused (`method_rate_of_agent`). ms */
const maxWaitMs = 30_000
/** Rate of log lines about one agent, one a minute, and number of agents that are remembered. */
const logged = { perSecond: 1 / 60, burst: 1, maxKeys: 1000 }

/** Outcome of a call or a message that is over its rate. */
export type OverRate = 'slowed' | 'refused'

export interface AgentRatesComponents {
  /** a monotonic clock */
  readonly clock: Clock
  readonly log: Logger
  /** @param method - `Service/Method` */
  readonly onOver: (method: string, outcome: OverRate) => void
}

/** Rates at which agents may use this replica, method by method, for everything that 8150 serves. */
export class AgentRates {
  readonly #components: AgentRatesComponents
  readonly #methods = new Map<string, AgentRate>()
  readonly #lines: RateLimits<AgentId>

  /** @param methods - by `/package.Service/Method`. @throws Error that names a method without a rate */
  constructor(components: AgentRatesComponents, methods: Readonly<Record<string, { readonly rate: MethodRate }>>) {
    this.#components = components
    this.#lines = new RateLimits(components.clock, logged)
    for (const [method, { rate }] of Object.entries(methods)) {
      if (rate === undefined) throw new Error(`The method ${method} that agents may call has no rate`)
      const name = shortName(method)
      const over = (agentId: AgentId, over: Over) => this.#over(name, agentId, over)
      this.#methods.set(method, new AgentRate({ clock: components.clock, over }, { name, rate }))
    }
  }

  of(method: string): AgentRate {
    return this.#methods.get(method) as AgentRate
  }

  #over(method: string, agentId: AgentId, { outcome, waitMs }: Over): void {
    const { log, onOver } = this.#components
    onOver(method, outcome)
    if (!this.#lines.of(agentId).takeIfThere(1)) return
    const fields = { agent_id: String(agentId), grpc_method: method, duration_ms: Math.ceil(waitMs) }
    log.warn(
      fields,
      outcome === 'slowed' ? 'An agent calls too often and is slowed down' : 'An agent calls too often and is refused',
    )
  }
}

interface Over {
  readonly outcome: OverRate
  readonly waitMs: number
}

/** Rate of one method. */
export class AgentRate {
  readonly #clock: Clock
  /** `Service/Method` */
  readonly #name: string
  readonly #rate: MethodRate
  readonly #rateLimits: RateLimits<AgentId>
  readonly #over: (agentId: AgentId, over: Over) => void

  constructor(
    { clock, over }: { readonly clock: Clock; readonly over: (agentId: AgentId, over: Over) => void },
    { name, rate }: { readonly name: string; readonly rate: MethodRate },
  ) {
    this.#clock = clock
    this.#name = name
    this.#rate = rate
    this.#rateLimits = new RateLimits(clock, { ...rate, maxKeys: maxAgents })
    this.#over = over
  }

  /**
   * Charges a call.
   *
   * @returns ms until the call may begin
   * @throws KasError TOO_MANY_STREAMS if that is too long: the call is not charged
   */
  call(agentId: AgentId): number {
    const { call } = this.#rate.cost
    const waitMs = this.#rateLimits.of(agentId).msUntil(call)
    if (waitMs > maxWaitMs) {
      this.#over(agentId, { outcome: 'refused', waitMs })
      const what = `calls and messages of ${this.#name} of this agent at this replica, in units a second`
      throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'method_rate_of_agent', limit: this.#rate.perSecond, what })
    }
    return this.#charge(agentId, call)
  }

  /** Charges a message of so many bytes. @returns ms until it may be read */
  message(agentId: AgentId, bytes: number): number {
    const { message, kib } = this.#rate.cost
    return this.#charge(agentId, message + (kib * bytes) / 1024)
  }

  /** Charges further work. @returns ms until the agent has paid for it */
  work(agentId: AgentId, units: number): number {
    return this.#charge(agentId, units)
  }

  /** Waits; rejects with the signal's reason. */
  wait(ms: number, signal: AbortSignal): Promise<void> {
    return clockDelay(this.#clock, ms, signal)
  }

  #charge(agentId: AgentId, units: number): number {
    const waitMs = this.#rateLimits.of(agentId).take(units)
    if (waitMs > 0) this.#over(agentId, { outcome: 'slowed', waitMs })
    return waitMs
  }
}

/** `/package.Service/Method` as `Service/Method`. */
export function shortName(method: string): string {
  return method.slice(Math.max(method.indexOf('/'), method.lastIndexOf('.')) + 1)
}

/** @param methods - `/package.Service/Method`. @returns callback that counts one */
export function createRateMetrics(register: Registry, methods: readonly string[]): AgentRatesComponents['onOver'] {
  const counter = new Counter({
    name: 'kas_agent_rate_limited_total',
    help: 'Calls, messages and work of agents that were over the rate of their method, and waited or were refused',
    labelNames: ['method', 'outcome'] as const,
    registers: [register],
  })
  for (const method of methods)
    for (const outcome of ['slowed', 'refused']) counter.inc({ method: shortName(method), outcome }, 0)
  return (method, outcome) => counter.inc({ method, outcome })
}
