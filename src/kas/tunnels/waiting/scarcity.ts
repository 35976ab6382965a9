import { hasShare } from '../../../call/caller.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { Tunnel } from '../tunnel.ts'
import type { Shares, TunnelRequest } from '../tunnel-shares.ts'
import type { Waiter } from './waiting-calls.ts'

/** Round trips of the agent that a call must have waited before tunnels are scarce: a new tunnel takes as many, */
const scarceRoundTrips = 3
/** and how long it must have waited. ms */
const scarceMs = 200
/** Bound of that wait, however long a PING takes. ms */
const maxScarceMs = 2000
/** Pause between two checks for scarcity. ms */
const checkMs = 200
/** A call that has waited this long gets the tunnel of the oldest watch of the caller with most tunnels. ms */
const recallMs = 600

/** `Retry-After` of a refused caller, which grows with its excess over the share. s */
const retryAfterS = { least: 5, most: 30 }

export interface ScarcityComponents {
  /** a monotonic clock */
  readonly clock: Clock
  readonly random: () => number
}

/** An agent whose tunnels may be scarce. */
export interface Contended {
  readonly living: ReadonlySet<Tunnel>
  /** shares of the tunnels that are taken */
  readonly shares: Shares
  /** waiting calls whose method one of the tunnels serves */
  waiters(): Waiter[]
  /** when the number of tunnels last grew */
  readonly grewAt: number
  /** Refuses a waiting call: it waits no more. */
  refuse(waiter: Waiter, error: KasError): void
  /** Ends the caller's use of the tunnel. */
  free(tunnel: Tunnel): void
}

/**
 * Checks while calls wait whether an agent's tunnels are scarce. While they are, callers with more than their share are
 * refused and lose watches to others (doc/internals/routing.md "A share for each caller").
 */
export class Scarcity {
  readonly #components: ScarcityComponents
  readonly #agent: Contended
  #isScarce = false
  /** recalls pause until then: the agent opens tunnels in place of the recalled ones */
  #recallsFrom = Number.NEGATIVE_INFINITY
  #stop: () => void

  constructor(components: ScarcityComponents, agent: Contended) {
    this.#components = components
    this.#agent = agent
    this.#stop = this.#check()
  }

  /** Stops the checks: no call waits any more. */
  end(): void {
    this.#stop()
  }

  /** @returns the refusal of a call that may not even wait; undefined: it may wait */
  refusalOf(request: TunnelRequest): KasError | undefined {
    return this.#isScarce ? this.#refusalOf(request, this.#callers(this.#agent.waiters())) : undefined
  }

  #check(): () => void {
    const { clock } = this.#components
    const now = clock.now()
    for (const { connection } of this.#agent.living) connection.measure(now)
    return clock.after(checkMs, () => {
      this.#stop = this.#check() // first, because `#relieve` may end the checks
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

  /** Recalls a watch for each call that has waited for long: the watch ends in order, and its client opens it again. */
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

  /** @param callers - callers that have tunnels or wait for one */
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

  /** Computes a random delay, so that callers who are refused together do not return together. */
  #retryAfterS(shares: number): number {
    const { least, most } = retryAfterS
    const seconds = least * shares * (0.75 + this.#components.random() / 2)
    return Math.round(Math.min(most, Math.max(least, seconds)))
  }

  #callers(waiters: readonly Waiter[]): Set<string> {
    return new Set([...this.#agent.shares.callers, ...waiters.map(({ source }) => source)])
  }

  /** Returns the wait after which tunnels are scarce. A connection without an answered PING counts with `checkMs`. */
  #scarceAfterMs(): number {
    let longestMs = 0
    for (const { connection } of this.#agent.living) longestMs = Math.max(longestMs, connection.roundTripMs ?? checkMs)
    return Math.min(maxScarceMs, Math.max(scarceMs, scarceRoundTrips * longestMs))
  }
}
