import { addressOf } from '../../../lib/host-port.ts'
import { Networks } from '../../../lib/networks.ts'
import { forwardedFor } from './forwarded-for.ts'

/** What is believed of the far end of a connection. */
export interface Origin {
  /** undefined: of a Unix socket, or it had left before anybody asked */
  readonly address: string | undefined
  /** a front that is trusted: whom each request is from stands in its X-Forwarded-For */
  readonly isFront: boolean
}

export interface ClientAddressesOptions {
  /** addresses and networks of fronts, as `parseNetwork` takes them */
  readonly trustedProxies: readonly string[]
  /** whom a connection of a front is from stands in the PROXY header that it begins with */
  readonly proxyProtocol: boolean
}

const noProxies: ClientAddressesOptions = { trustedProxies: [], proxyProtocol: false }

/** Who calls, by what the fronts that are trusted say (doc/client-address.md). */
export class ClientAddresses {
  /** else nobody is trusted: each is who he connects as */
  readonly isOn: boolean
  readonly usesProxyProtocol: boolean
  readonly #trusted: Networks
  /** by far end: what came in PROXY headers */
  readonly #headers = new Map<string, Origin>()

  constructor({ trustedProxies, proxyProtocol }: ClientAddressesOptions = noProxies) {
    this.isOn = trustedProxies.length > 0
    this.usesProxyProtocol = this.isOn && proxyProtocol
    this.#trusted = new Networks(trustedProxies)
  }

  isTrusted(address: string): boolean {
    return this.#trusted.has(address)
  }

  /** @param remote - `address:port`. Undefined: as in `Origin` */
  of(remote: string | undefined): Origin {
    if (remote === undefined) return { address: undefined, isFront: false }
    const address = addressOf(remote)
    if (this.usesProxyProtocol) return this.#headers.get(remote) ?? { address, isFront: false }
    return { address, isFront: this.isOn && this.isTrusted(address) }
  }

  /** @param forwarded - values of the request's X-Forwarded-For. @returns as `Origin.address` */
  ofRequest({ address, isFront }: Origin, forwarded: readonly string[] = []): string | undefined {
    if (!isFront || address === undefined) return address
    return forwardedFor(forwarded, address, (each) => this.isTrusted(each))
  }

  /**
   * A connection of a front has begun with a PROXY header; until `forget`. A front that speaks for itself, or does not know
   * whom for, passes on bytes that are not its own: no X-Forwarded-For among them is believed.
   *
   * @param client - the address in it; undefined: none
   */
  learn(remote: string, client: string | undefined): void {
    const isFront = client !== undefined && this.isTrusted(client)
    this.#headers.set(remote, { address: client ?? addressOf(remote), isFront })
  }

  forget(remote: string): void {
    this.#headers.delete(remote)
  }
}
