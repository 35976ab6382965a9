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

/** A call with the addresses of its client. */
export interface ArrivedCall {
  /** far end of the connection, `address:port` */
  readonly remote: string | undefined
  /** the connection also carries calls of other clients */
  readonly isFront: boolean
  /** the client's trusted address; undefined: the call came on a Unix socket */
  readonly address: string | undefined
}

export interface ArrivalsComponents extends UnauthenticatedComponents {
  readonly addresses: ClientAddresses
}

/** Bounds connections, and calls on connections of fronts, until a caller is admitted; by trusted client address. */
export class Arrivals {
  readonly fronts: FrontConnections
  readonly #addresses: ClientAddresses
  readonly #unauthenticated: UnauthenticatedConnections

  constructor(components: ArrivalsComponents, options: UnauthenticatedOptions, fronts?: FrontConnectionsOptions) {
    this.#addresses = components.addresses
    this.#unauthenticated = new UnauthenticatedConnections(components, options)
    this.fronts = new FrontConnections(components, fronts)
  }

  /** history of addresses, for turns of TLS */
  get history(): SourceHistory {
    return this.#unauthenticated.history
  }

  /** @param socket - accepted just now, before TLS */
  arrived(socket: Socket): void {
    const { address, isFront } = this.#addresses.of(remoteOf(socket))
    if (isFront) this.fronts.arrived(socket)
    else this.#unauthenticated.arrived(socket, address)
  }

  /** Notes that a connection has sent bytes and waits for its turn of TLS. @returns must be called when that comes */
  waitsForTls(socket: Socket): () => void {
    return this.#unauthenticated.waitsForTls(remoteOf(socket))
  }

  /** Notes that a front's connection is for one client alone. */
  identified(socket: Socket, address: string | undefined): void {
    this.fronts.forget(remoteOf(socket))
    this.#unauthenticated.arrived(socket, address)
  }

  /**
   * Admits a caller as `UnauthenticatedConnections.admit` does. A call on a front's connection counts as its client's,
   * also after another caller was admitted there.
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

  /** Closes connections without a call for too long; must be called regularly. */
  closeInactive(): void {
    this.#unauthenticated.closeInactive()
    this.fronts.closeInactive()
  }
}
