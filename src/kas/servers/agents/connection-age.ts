import type { AgentConnection } from '../../tunnels/agent-connection.ts'

export interface ConnectionAgeOptions {
  /** `max_connection_age`. ms */
  readonly maxAgeMs: number
  /** 0 to 1, so that connections of one moment do not all age in one */
  readonly random?: () => number
}

/** Shares of the age (doc/reference/tunnel-protocol.md 2.4). */
const goAwayShare = 0.2
const goAwayJitter = 0.1
const retireShare = 0.3
const retireJitter = 0.05
const graceShare = 0.65

/**
 * Ends a connection by its age: first GOAWAY, so that new streams go to another; then idle tunnels and polling
 * streams end with OK; at last what still runs is cut.
 */
export class ConnectionAge {
  readonly #timers: NodeJS.Timeout[]

  constructor(connection: AgentConnection, { maxAgeMs, random = Math.random }: ConnectionAgeOptions) {
    const goAwayMs = maxAgeMs * goAwayShare * (1 + goAwayJitter * (2 * random() - 1))
    const retireMs = maxAgeMs * (retireShare + retireJitter * random())
    this.#timers = [
      setTimeout(() => connection.goAway(), goAwayMs),
      setTimeout(() => connection.retire(), retireMs),
      setTimeout(() => connection.session.destroy(), goAwayMs + maxAgeMs * graceShare),
    ]
    for (const timer of this.#timers) timer.unref()
  }

  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer)
  }
}
