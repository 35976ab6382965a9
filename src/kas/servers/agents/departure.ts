import type { Clock } from '../../../lib/clock.ts'
import type { AgentConnection } from '../../tunnels/agent-connection.ts'
import type { Placement } from '../../tunnels/home-placement.ts'

export interface DepartureComponents {
  readonly connections: ReadonlySet<AgentConnection>
  /** knows whether a peer serves, to which agents can go */
  readonly placement: Pick<Placement, 'peersServe' | 'onChange'>
  readonly clock: Clock
  /** 0 to 1 */
  readonly random: () => number
}

export interface DepartureOptions {
  /** time over which connections are sent away, so that peers do not get them all at once. ms */
  readonly spreadMs: number
  /** time from GOAWAY and the end of one idle tunnel to the end of the others, which serve while the agent dials. ms */
  readonly dialMs: number
  /** time in which agents that take hints move; after it they are sent away like the others. ms */
  readonly moveMs: number
}

/**
 * Sends the agents of a replica that leaves to its peers, while it still carries calls (doc/operate/operations.md "How a
 * replica leaves"). Each connection gets GOAWAY, and one idle tunnel ends, which the agent opens again elsewhere. Then
 * all idle streams end. Running calls go on. While no peer serves, all connections stay.
 */
export class Departure {
  readonly #components: DepartureComponents
  readonly #options: DepartureOptions
  /** timers of connections that will be sent away, or have GOAWAY and still idle tunnels */
  readonly #pending = new Map<AgentConnection, () => void>()
  #unsubscribe: (() => void) | undefined
  /** when all connections should be sent away; set once a peer serves */
  #endsAt: number | undefined

  constructor(components: DepartureComponents, options: DepartureOptions) {
    this.#components = components
    this.#options = options
  }

  begin(): void {
    this.#unsubscribe ??= this.#components.placement.onChange(() => this.#schedule())
    this.#schedule()
  }

  /** Schedules a connection that arrived while this replica leaves: it serves until its turn. */
  arrived(connection: AgentConnection): void {
    if (this.#endsAt !== undefined) this.#sendAt(connection, this.#endsAt - this.#components.clock.now())
  }

  stop(): void {
    this.#unsubscribe?.()
    for (const cancel of this.#pending.values()) cancel()
    this.#pending.clear()
  }

  #schedule(): void {
    const { connections, placement, clock, random } = this.#components
    if (this.#endsAt !== undefined || !placement.peersServe) return
    const { spreadMs } = this.#options
    this.#endsAt = clock.now() + spreadMs
    let place = 0
    for (const connection of connections) {
      this.#sendAt(connection, (spreadMs * (place + random())) / connections.size)
      place++
    }
  }

  #sendAt(connection: AgentConnection, ms: number): void {
    const { moveMs } = this.#options
    const waitMs = connection.movesByItself ? Math.max(ms, moveMs) : ms
    this.#after(connection, waitMs, () => this.#send(connection))
  }

  #send(connection: AgentConnection): void {
    if (connection.retired.aborted) return
    connection.goAway()
    connection.renewOne()
    this.#after(connection, this.#options.dialMs, () => connection.retire())
  }

  #after(connection: AgentConnection, ms: number, action: () => void): void {
    const cancel = this.#components.clock.after(Math.max(0, ms), () => {
      this.#pending.delete(connection)
      action()
    })
    this.#pending.set(connection, cancel)
  }
}
