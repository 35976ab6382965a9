import { BlockList, isIP, isIPv6 } from 'node:net'
import { plainAddress } from './host-port.ts'

/** What `parseNetwork` takes, for error texts. */
export const networkForm =
  'an address or a network such as "10.0.0.7", "10.0.0.0/24" or "2001:db8::/64", never of all addresses'

export interface Network {
  readonly address: string
  /** bits that all its addresses have in common: 1 to 32, of IPv6 to 128 */
  readonly prefix: number
}

/** `text` taken apart; undefined if it is no network in CIDR notation, or one of all addresses. */
export function parseNetwork(text: string): Network | undefined {
  const [, address = '', digits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  if (isIP(address) === 0 || address.includes('%')) return undefined
  const bits = isIPv6(address) ? 128 : 32
  if (isIPv6(address) && !isIPv6(plainAddress(address))) return undefined // IPv4 in other words: its bits would be miscounted
  const prefix = digits === undefined ? bits : Number(digits)
  return prefix >= 1 && prefix <= bits ? { address, prefix } : undefined
}

/** Addresses, by networks. */
export class Networks {
  readonly #list = new BlockList()

  /** @param networks - each as `parseNetwork` takes it */
  constructor(networks: readonly string[]) {
    for (const text of networks) {
      const network = parseNetwork(text)
      if (!network) throw new Error(`${text} was checked when the configuration was read`)
      this.#list.addSubnet(network.address, network.prefix, familyOf(network.address))
    }
  }

  /** @param address - as `plainAddress` writes it; what is none is in no network */
  has(address: string): boolean {
    return isIP(address) !== 0 && this.#list.check(address, familyOf(address))
  }
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIPv6(address) ? 'ipv6' : 'ipv4'
}
