import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { parseHostPort, plainAddress } from '../../lib/host-port.ts'

/** Conversion of addresses between kas's form and libp2p's. */

export interface ListenAddress {
  /** an IP address, or a name that resolves to one; absent: all interfaces */
  readonly host?: string
  /** 0: any free port */
  readonly port: number
}

/** Host of a multiaddr, in the form of discovery. */
export function hostOf(address: Multiaddr): string {
  const host = address
    .getComponents()
    .find(({ name }) => name === 'ip4' || name === 'ip6' || name.startsWith('dns'))?.value
  return plainAddress(host ?? '')
}

/** Multiaddr of `10.0.0.7:8156`; undefined: it is no address. */
export function toMultiaddr(address: string): Multiaddr | undefined {
  const target = parseHostPort(address)
  if (!target) return undefined
  const family = { 4: 'ip4', 6: 'ip6' }[isIP(target.host)] ?? 'dns'
  return multiaddr(`/${family}/${target.host}/tcp/${target.port}`)
}

/** Multiaddr to listen on. Without a host, all addresses of both families. */
export function listenMultiaddr({ host, port }: ListenAddress): string {
  if (host !== undefined && host !== '') return `/${isIP(host) === 6 ? 'ip6' : 'ip4'}/${host}/tcp/${port}`
  const hasIPv6 = Object.values(networkInterfaces()).some((list) => list?.some(({ family }) => family === 'IPv6'))
  return hasIPv6 ? `/ip6/::/tcp/${port}` : `/ip4/0.0.0.0/tcp/${port}`
}

/** True if the address is one of this machine's, at the port on which this replica listens. */
export function isOwnAddress(address: string, ownPort: number): boolean {
  const place = parseHostPort(address)
  if (place?.port !== ownPort) return false
  return Object.values(networkInterfaces()).some((list) => list?.some((own) => own.address === place.host))
}
