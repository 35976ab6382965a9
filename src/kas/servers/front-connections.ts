import type { Socket } from 'node:net'
import { remoteOf } from '../../lib/host-port.ts'
import type { UnauthenticatedComponents, UnauthenticatedRefusal } from './unauthenticated-connections.ts'

export interface FrontConnectionsOptions {
  /** a front connects when it has something to send, and is not kept waiting by what strangers hold open */
  readonly maxInactive: number
  /** one that arrived less than this ago makes no room. ms */
  readonly graceMs: number
  readonly maxSilenceMs: number
}

const defaultFrontConnections: FrontConnectionsOptions = {
  maxInactive: 1000,
  graceMs: 2000,
  maxSilenceMs: 60_000,
}

interface FrontConnection {
  readonly socket: Socket
  readonly cameAt: number
  /** calls that are being checked */
  calls: number
  inactiveSince: number
}

/**
 * Connections of trusted fronts by which nobody has been let in yet. Those that are silent have a bound of their own: whom
 * they are for is not known before a head is read, and then each call counts as its client's.
 */
export class FrontConnections {
  readonly #components: UnauthenticatedComponents
  readonly #options: FrontConnectionsOptions
  /** by their far end */
  readonly #connections = new Map<string, FrontConnection>()
  /** the longest silent first */
  readonly #inactive = new Set<FrontConnection>()

  constructor(components: UnauthenticatedComponents, options: FrontConnectionsOptions = defaultFrontConnections) {
    this.#components = components
    this.#options = options
  }

  arrived(socket: Socket): void {
    const remote = remoteOf(socket)
    if (remote === undefined) return
    const now = this.#components.now()
    const connection = { socket, cameAt: now, calls: 0, inactiveSince: now }
    this.#connections.set(remote, connection)
    socket.on('close', () => {
      this.#inactive.delete(connection)
      if (this.#connections.get(remote) === connection) this.#connections.delete(remote)
    })
    this.#becomeInactive(connection)
  }

  /** A call has come. @returns to be called once it is checked */
  called(remote: string | undefined): () => void {
    const connection = this.#connections.get(remote ?? '')
    if (!connection) return () => undefined
    connection.calls++
    this.#inactive.delete(connection)
    return () => {
      connection.calls--
      if (connection.calls === 0 && this.#connections.get(remote ?? '') === connection) this.#becomeInactive(connection)
    }
  }

  /** Somebody was let in, or it counts as one client's. */
  forget(remote: string | undefined): void {
    const connection = this.#connections.get(remote ?? '')
    if (!connection) return
    this.#connections.delete(remote ?? '')
    this.#inactive.delete(connection)
  }

  /** Closes those that have been silent for too long; to be called now and then. */
  closeInactive(): void {
    const oldest = this.#components.now() - this.#options.maxSilenceMs
    for (const connection of this.#inactive) {
      if (connection.inactiveSince > oldest) return
      this.#close(connection, 'too_slow')
    }
  }

  #becomeInactive(connection: FrontConnection): void {
    const now = this.#components.now()
    connection.inactiveSince = now
    this.#inactive.add(connection)
    if (this.#inactive.size <= this.#options.maxInactive) return
    const [longest = connection] = this.#inactive
    this.#close(longest.cameAt <= now - this.#options.graceMs ? longest : connection, 'too_many_connections')
  }

  #close(connection: FrontConnection, reason: UnauthenticatedRefusal): void {
    this.#inactive.delete(connection)
    this.#components.refused(reason)
    connection.socket.destroy()
  }
}
