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

const steps: readonly ((connection: AgentConnection) => void)[] = [
  (connection) => connection.goAway(),
  (connection) => connection.retire(),
  (connection) => connection.session.destroy(),
]

/**
 * Ends a connection by its age: first GOAWAY, so that new streams go to another; then idle tunnels and polling
 * streams end with OK; at last what still runs is cut.
 */
export class ConnectionAge {
  readonly #connection: AgentConnection
  /** when, of each step */
  readonly #times: readonly number[]
  /** steps that were taken */
  #taken = 0

  /** @param now - ms, of the clock of `check` */
  constructor(connection: AgentConnection, now: number, { maxAgeMs, random = Math.random }: ConnectionAgeOptions) {
    const goAwayMs = maxAgeMs * goAwayShare * (1 + goAwayJitter * (2 * random() - 1))
    const retireMs = maxAgeMs * (retireShare + retireJitter * random())
    this.#connection = connection
    this.#times = [goAwayMs, retireMs, goAwayMs + maxAgeMs * graceShare].map((ms) => now + Math.round(ms))
  }

  /** Takes the steps that are due; to be called a few times a second. */
  check(now: number): void {
    for (; now >= (this.#times[this.#taken] ?? Number.POSITIVE_INFINITY); this.#taken++) {
      steps[this.#taken]?.(this.#connection)
    }
  }
}
