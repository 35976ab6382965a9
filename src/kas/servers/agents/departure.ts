import type { Clock } from '../../../lib/clock.ts'
import type { AgentConnection } from '../../tunnels/agent-connection.ts'
import type { Placement } from '../../tunnels/home-placement.ts'

export interface DepartureComponents {
  readonly connections: ReadonlySet<AgentConnection>
  /** whether a peer serves, to which agents can go */
  readonly placement: Pick<Placement, 'peersServe' | 'onChange'>
  readonly clock: Clock
  /** 0 to 1 */
  readonly random: () => number
}

export interface DepartureOptions {
  /** connections are sent away over so long, so that peers do not get them all at once. ms */
  readonly spreadMs: number
  /** from GOAWAY and the end of one idle tunnel to the end of the others, which serve while the agent dials. ms */
  readonly dialMs: number
  /** agents that take hints have moved by then; else they are sent away as the others are. ms */
  readonly moveMs: number
}

/**
 * Sends the agents of a replica that leaves to its peers, while it still carries calls
 * (doc/operations.md "How a replica leaves"): GOAWAY and the end of one idle tunnel, which the agent opens again
 * elsewhere, then the end of all idle streams. Running calls go on. While no peer serves, all stay.
 */
export class Departure {
  readonly #components: DepartureComponents
  readonly #options: DepartureOptions
  /** timers of connections that are yet to be sent away, or have been and still have idle tunnels */
  readonly #pending = new Map<AgentConnection, () => void>()
  #unsubscribe: (() => void) | undefined
  /** by when all are to be sent away; set once a peer serves */
  #endsAt: number | undefined

  constructor(components: DepartureComponents, options: DepartureOptions) {
    this.#components = components
    this.#options = options
  }

  begin(): void {
    this.#unsubscribe ??= this.#components.placement.onChange(() => this.#schedule())
    this.#schedule()
  }

  /** A connection has arrived though this replica leaves: it serves until its turn. */
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
