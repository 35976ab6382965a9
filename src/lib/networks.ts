import { BlockList, isIP, isIPv6 } from 'node:net'
import { plainAddress } from './host-port.ts'

/** Form that `parseNetwork` accepts, for error texts. */
export const networkForm =
  'an address or a network such as "10.0.0.7", "10.0.0.0/24" or "2001:db8::/64", never of all addresses'

export interface Network {
  readonly address: string
  /** bits that all its addresses have in common: 1 to 32, of IPv6 to 128 */
  readonly prefix: number
}

/** Parses a network. Returns undefined if `text` is no network in CIDR notation, or the network of all addresses. */
export function parseNetwork(text: string): Network | undefined {
  const [, address = '', digits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  if (isIP(address) === 0 || address.includes('%')) return undefined
  const bits = isIPv6(address) ? 128 : 32
  if (isIPv6(address) && !isIPv6(plainAddress(address))) return undefined // IPv4-mapped: its bits would be miscounted
  const prefix = digits === undefined ? bits : Number(digits)
  return prefix >= 1 && prefix <= bits ? { address, prefix } : undefined
}

/** Set of addresses, given by networks. */
export class Networks {
  readonly #list = new BlockList()

  /** @param networks - each in the form that `parseNetwork` accepts */
  constructor(networks: readonly string[]) {
    for (const text of networks) {
      const network = parseNetwork(text)
      if (!network) throw new Error(`${text} was checked when the configuration was read`)
      this.#list.addSubnet(network.address, network.prefix, familyOf(network.address))
    }
  }

  /** @param address - as `plainAddress` writes it; a text that is no address is in no network */
  has(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, familyOf(address))
  }
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4'
}
