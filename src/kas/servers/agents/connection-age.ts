import type { AgentConnection } from '../../tunnels/agent-connection.ts'

export interface ConnectionAgeOptions {
  /** `max_connection_age`. ms */
  readonly maxAgeMs: number
  /** 0 to 1, so that connections made at the same time do not age at the same time */
  readonly random?: () => number
}

/** Shares of the age at which each step is due (doc/reference/tunnel-protocol.md 2.4). */
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
 * Ends a connection by its age. First GOAWAY sends new streams to another connection. Then idle tunnels and polling
 * streams end with OK. At last the connection is cut.
 */
export class ConnectionAge {
  readonly #connection: AgentConnection
  /** when each step is due */
  readonly #times: readonly number[]
  /** number of steps taken */
  #taken = 0

  /** @param now - ms, of the same clock as for `check` */
  constructor(connection: AgentConnection, now: number, { maxAgeMs, random = Math.random }: ConnectionAgeOptions) {
    const goAwayMs = maxAgeMs * goAwayShare * (1 + goAwayJitter * (2 * random() - 1))
    const retireMs = maxAgeMs * (retireShare + retireJitter * random())
    this.#connection = connection
    this.#times = [goAwayMs, retireMs, goAwayMs + maxAgeMs * graceShare].map((ms) => now + Math.round(ms))
  }

  /** Takes the steps that are due; must be called a few times a second. */
  check(now: number): void {
    for (; now >= (this.#times[this.#taken] ?? Number.POSITIVE_INFINITY); this.#taken++) {
      steps[this.#taken]?.(this.#connection)
    }
  }
}
