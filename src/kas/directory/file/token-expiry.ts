import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'

export interface TokenExpiryComponents {
  readonly clock: Clock
  /** @param agentIds - whose tokens they were */
  readonly onExpired: (agentIds: ReadonlySet<AgentId>) => void
}

/** Of an agent's token. */
export interface Expiry {
  readonly agentId: AgentId
  /** in ms since 1970 */
  readonly at: number
}

/**
 * Longest wait before the clock is read again: a timer knows nothing of a clock that was put right or of a machine that
 * slept, and cannot wait for more than 2^31 - 1 ms.
 */
const maxWaitMs = 60_000

/** Tells when tokens become void by time: one timer, for the next. */
export class TokenExpiry {
  readonly #components: TokenExpiryComponents
  /** all later than when they were compared with the clock last */
  #pending: readonly Expiry[] = []
  #cancel: (() => void) | undefined
  #stopped = false

  constructor(components: TokenExpiryComponents) {
    this.#components = components
  }

  /** @param expiries - those of what is in force from now on */
  watch(expiries: readonly Expiry[]): void {
    this.#cancel?.()
    this.#cancel = undefined
    const now = this.#components.clock.now()
    this.#pending = expiries.filter(({ at }) => at > now)
    this.#schedule()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel?.()
    this.#cancel = undefined
  }

  #schedule(): void {
    if (this.#stopped || this.#pending.length === 0) return
    const { clock } = this.#components
    const next = this.#pending.reduce((earliest, { at }) => Math.min(earliest, at), Infinity)
    this.#cancel = clock.after(Math.min(maxWaitMs, Math.max(1, next - clock.now())), () => this.#check())
  }

  #check(): void {
    const { clock, onExpired } = this.#components
    const now = clock.now()
    const isExpired = ({ at }: Expiry) => at <= now
    const expired = new Set(this.#pending.filter(isExpired).map(({ agentId }) => agentId))
    this.#pending = this.#pending.filter((expiry) => !isExpired(expiry))
    this.#schedule()
    if (expired.size > 0) onExpired(expired)
  }
}
