import { addressOf } from '../../../lib/host-port.ts'
import { Networks } from '../../../lib/networks.ts'
import { forwardedFor } from './forwarded-for.ts'

/** Trusted facts about the far end of a connection. */
export interface Origin {
  /** undefined: a Unix socket, or a connection that had closed before it was read */
  readonly address: string | undefined
  /** a trusted front: X-Forwarded-For names the client of each request */
  readonly isFront: boolean
}

export interface ClientAddressesOptions {
  /** addresses and networks of fronts, in the form of `parseNetwork` */
  readonly trustedProxies: readonly string[]
  /** connections of fronts begin with a PROXY header, which names the client */
  readonly proxyProtocol: boolean
}

const noProxies: ClientAddressesOptions = { trustedProxies: [], proxyProtocol: false }

/** Finds the addresses of clients from what trusted fronts send (doc/operate/client-address.md). */
export class ClientAddresses {
  /** false: no front is trusted, and each client counts by the address of its connection */
  readonly isOn: boolean
  readonly usesProxyProtocol: boolean
  readonly #trusted: Networks
  /** origins from PROXY headers, by remote address and port */
  readonly #headers = new Map<string, Origin>()

  constructor({ trustedProxies, proxyProtocol }: ClientAddressesOptions = noProxies) {
    this.isOn = trustedProxies.length > 0
    this.usesProxyProtocol = this.isOn && proxyProtocol
    this.#trusted = new Networks(trustedProxies)
  }

  isTrusted(address: string): boolean {
    return this.#trusted.has(address)
  }

  /** @param remote - `address:port`; undefined: see `Origin.address` */
  of(remote: string | undefined): Origin {
    if (remote === undefined) return { address: undefined, isFront: false }
    const address = addressOf(remote)
    if (this.usesProxyProtocol) return this.#headers.get(remote) ?? { address, isFront: false }
    return { address, isFront: this.isOn && this.isTrusted(address) }
  }

  /** @param forwarded - values of the request's X-Forwarded-For. @returns the client's address, as `Origin.address` */
  ofRequest({ address, isFront }: Origin, forwarded: readonly string[] = []): string | undefined {
    if (!isFront || address === undefined) return address
    return forwardedFor(forwarded, address, (each) => this.isTrusted(each))
  }

  /**
   * Records the PROXY header with which a front's connection began, until `forget`. Without an address in it, the
   * front's bytes may be anybody's: their X-Forwarded-For is not trusted.
   *
   * @param client - address in the header; undefined: none
   */
  learn(remote: string, client: string | undefined): void {
    const isFront = client !== undefined && this.isTrusted(client)
    this.#headers.set(remote, { address: client ?? addressOf(remote), isFront })
  }

  forget(remote: string): void {
    this.#headers.delete(remote)
  }
}
