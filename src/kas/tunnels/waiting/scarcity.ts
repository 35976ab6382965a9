import { hasShare } from '../../../call/caller.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Shares, TunnelRequest } from '../shares.ts'
import type { Tunnel } from '../tunnel.ts'
import type { Waiter } from './waiting-calls.ts'

/** Tunnels are scarce once a call has waited for so many round trips of the agent, in which a new one would have come, */
const scarceRoundTrips = 3
/** and for so long. ms */
const scarceMs = 200
/** Whatever a PING says. ms */
const maxScarceMs = 2000
/** Between two checks of whether they are. ms */
const checkMs = 200
/** Who has waited for so long gets the tunnel of the oldest watch of the caller that holds most. ms */
const recallMs = 600

/** Of who holds twice his share, and more, it is more. s */
const retryAfterS = { least: 5, most: 30 }

export interface ScarcityComponents {
  /** a monotonic one */
  readonly clock: Clock
  readonly random: () => number
}

/** An agent, as far as its tunnels may be scarce. */
export interface Contended {
  readonly living: ReadonlySet<Tunnel>
  /** of those that are taken */
  readonly shares: Shares
  /** those who wait, and whom a tunnel could serve */
  waiters(): Waiter[]
  /** since when it has opened none beyond those that it had */
  readonly grewAt: number
  /** He waits no more. */
  refuse(waiter: Waiter, error: KasError): void
  /** It is nobody's any more. */
  free(tunnel: Tunnel): void
}

/**
 * Checks, as long as calls wait, whether an agent's tunnels are scarce. Then who holds more than his share is refused, and gives
 * up watches for others (doc/routing.md "A share for each caller").
 */
export class Scarcity {
  readonly #components: ScarcityComponents
  readonly #agent: Contended
  #isScarce = false
  /** by then the tunnels have come for which watches were recalled */
  #recallsFrom = Number.NEGATIVE_INFINITY
  #stop: () => void

  constructor(components: ScarcityComponents, agent: Contended) {
    this.#components = components
    this.#agent = agent
    this.#stop = this.#check()
  }

  /** Nobody waits any more. */
  end(): void {
    this.#stop()
  }

  /** @returns why a call may not even wait */
  refusalOf(request: TunnelRequest): KasError | undefined {
    return this.#isScarce ? this.#refusalOf(request, this.#callers(this.#agent.waiters())) : undefined
  }

  #check(): () => void {
    const { clock } = this.#components
    const now = clock.now()
    for (const { connection } of this.#agent.living) connection.measure(now)
    return clock.after(checkMs, () => {
      this.#stop = this.#check() // first: what follows may end it
      this.#relieve()
    })
  }

  #relieve(): void {
    const waiters = this.#agent.waiters()
    const latest = this.#components.clock.now() - this.#scarceAfterMs()
    this.#isScarce = this.#agent.grewAt <= latest && waiters.some(({ since }) => since <= latest)
    if (!this.#isScarce) return
    const callers = this.#callers(waiters)
    const waiting = waiters.filter((waiter) => {
      const refusal = this.#refusalOf(waiter.request, callers)
      if (refusal) this.#agent.refuse(waiter, refusal)
      return !refusal
    })
    this.#recall(waiting, callers.size)
  }

  /** A watch for each call that has waited for long: it ends in order, and its client opens it again. */
  #recall(waiting: readonly Waiter[], callers: number): void {
    const { living, shares } = this.#agent
    const now = this.#components.clock.now()
    if (now < this.#recallsFrom) return
    for (const { since } of waiting) {
      if (since > now - recallMs) continue
      const most = shares.most()
      const tunnel = most && most.tunnels > living.size / callers ? shares.oldestWatch(most.callerKey) : undefined
      if (!tunnel) return
      this.#recallsFrom = now + this.#scarceAfterMs()
      this.#agent.free(tunnel)
      tunnel.recall()
    }
  }

  /** @param callers - that hold tunnels or wait for one */
  #refusalOf({ agentId, caller: { key } }: TunnelRequest, callers: ReadonlySet<string>): KasError | undefined {
    const { shares, living } = this.#agent
    const { tunnels, watches } = shares.of(key)
    const share = living.size / (callers.has(key) ? callers.size : callers.size + 1)
    if (!hasShare(key) || tunnels <= share) return undefined
    return new KasError({
      code: 'CALLER_OVER_SHARE',
      agentId: String(agentId),
      held: tunnels,
      living: living.size,
      watches,
      retryAfterS: this.#retryAfterS(tunnels / share),
    })
  }

  /** So that those who are refused together do not come back together. */
  #retryAfterS(shares: number): number {
    const { least, most } = retryAfterS
    const seconds = least * shares * (0.75 + this.#components.random() / 2)
    return Math.round(Math.min(most, Math.max(least, seconds)))
  }

  #callers(waiters: readonly Waiter[]): Set<string> {
    return new Set([...this.#agent.shares.callers, ...waiters.map(({ source }) => source)])
  }

  /** A connection whose PING is not answered yet counts with the time between two checks. */
  #scarceAfterMs(): number {
    let longestMs = 0
    for (const { connection } of this.#agent.living) longestMs = Math.max(longestMs, connection.roundTripMs ?? checkMs)
    return Math.min(maxScarceMs, Math.max(scarceMs, scarceRoundTrips * longestMs))
  }
}
