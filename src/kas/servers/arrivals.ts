import type { Socket } from 'node:net'
import { addressOf, remoteOf } from '../../lib/host-port.ts'
import { type SourceHistory, sourceOf } from '../../lib/source-history.ts'
import type { ClientAddresses } from './addresses/client-addresses.ts'
import { FrontConnections, type FrontConnectionsOptions } from './front-connections.ts'
import {
  type UnauthenticatedComponents,
  UnauthenticatedConnections,
  type UnauthenticatedOptions,
} from './unauthenticated-connections.ts'

/** Who calls, and by what. */
export interface ArrivedCall {
  /** far end of the connection, `address:port` */
  readonly remote: string | undefined
  /** the connection carries calls of others too */
  readonly isFront: boolean
  /** that is believed; undefined: of a Unix socket */
  readonly address: string | undefined
}

export interface ArrivalsComponents extends UnauthenticatedComponents {
  readonly addresses: ClientAddresses
}

/** Connections, and calls on those of fronts, until somebody is let in, bounded by the address that is believed. */
export class Arrivals {
  readonly fronts: FrontConnections
  readonly #addresses: ClientAddresses
  readonly #unauthenticated: UnauthenticatedConnections

  constructor(components: ArrivalsComponents, options: UnauthenticatedOptions, fronts?: FrontConnectionsOptions) {
    this.#addresses = components.addresses
    this.#unauthenticated = new UnauthenticatedConnections(components, options)
    this.fronts = new FrontConnections(components, fronts)
  }

  /** for turns of TLS */
  get history(): SourceHistory {
    return this.#unauthenticated.history
  }

  /** @param socket - just accepted, before TLS */
  arrived(socket: Socket): void {
    const { address, isFront } = this.#addresses.of(remoteOf(socket))
    if (isFront) this.fronts.arrived(socket)
    else this.#unauthenticated.arrived(socket, address)
  }

  /** A connection has spoken and waits for its turn of TLS. @returns to be called once that has come */
  waitsForTls(socket: Socket): () => void {
    return this.#unauthenticated.waitsForTls(remoteOf(socket))
  }

  /** A connection of a front turns out to be for one client alone. */
  identified(socket: Socket, address: string | undefined): void {
    this.fronts.forget(remoteOf(socket))
    this.#unauthenticated.arrived(socket, address)
  }

  /**
   * As `UnauthenticatedConnections.admit`; a call of a front counts as that of its client, whoever was let in on the
   * connection before.
   */
  admit<T>(
    { remote, isFront, address }: ArrivedCall,
    check: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    if (!isFront) return this.#unauthenticated.admit(remote, check, signal)
    const checked = this.fronts.called(remote)
    return this.#unauthenticated
      .admitAlone(address ?? '', check, signal)
      .then((answer) => {
        this.fronts.forget(remote)
        if (remote !== undefined) this.history.letIn(sourceOf(addressOf(remote)))
        return answer
      })
      .finally(checked)
  }

  /** Closes those that have been silent for too long; to be called now and then. */
  closeInactive(): void {
    this.#unauthenticated.closeInactive()
    this.fronts.closeInactive()
  }
}
