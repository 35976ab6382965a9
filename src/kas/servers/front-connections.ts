import type { Socket } from 'node:net'
import { remoteOf } from '../../lib/host-port.ts'
import type { UnauthenticatedComponents, UnauthenticatedRefusal } from './unauthenticated-connections.ts'

export interface FrontConnectionsOptions {
  /** bound of connections without a call; a front must not wait for connections that strangers leave open */
  readonly maxInactive: number
  /** a connection younger than this is not closed to make room. ms */
  readonly graceMs: number
  /** time without a call after which a connection is closed. ms */
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
  /** calls that are being authenticated */
  calls: number
  inactiveSince: number
}

/**
 * Bounds connections of trusted fronts on which no caller has been admitted yet. Connections without a call have a
 * bound of their own, because only a request head names their client. Each call then counts as its client's.
 */
export class FrontConnections {
  readonly #components: UnauthenticatedComponents
  readonly #options: FrontConnectionsOptions
  /** by remote address and port */
  readonly #connections = new Map<string, FrontConnection>()
  /** connections without a call, the longest inactive first */
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

  /** Notes a call on the connection. @returns must be called when the call is authenticated or refused */
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

  /** Forgets a connection: a caller was admitted, or it counts as one client's. */
  forget(remote: string | undefined): void {
    const connection = this.#connections.get(remote ?? '')
    if (!connection) return
    this.#connections.delete(remote ?? '')
    this.#inactive.delete(connection)
  }

  /** Closes connections without a call for too long; must be called regularly. */
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
