import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type Multiaddr, multiaddr } from '@multiformats/multiaddr'
import { parseHostPort, plainAddress } from '../../lib/host-port.ts'

/** Addresses as the rest of kas writes them, and as libp2p does. */

export interface ListenAddress {
  /** an IP address, or a name that leads to one; without it, all interfaces */
  readonly host?: string
  /** 0: any that is free */
  readonly port: number
}

/** Of a multiaddr, as discovery would write it. */
export function hostOf(address: Multiaddr): string {
  const host = address
    .getComponents()
    .find(({ name }) => name === 'ip4' || name === 'ip6' || name.startsWith('dns'))?.value
  return plainAddress(host ?? '')
}

/** Of `10.0.0.7:8156`; undefined if it is no address. */
export function toMultiaddr(address: string): Multiaddr | undefined {
  const target = parseHostPort(address)
  if (!target) return undefined
  const family = { 4: 'ip4', 6: 'ip6' }[isIP(target.host)] ?? 'dns'
  return multiaddr(`/${family}/${target.host}/tcp/${target.port}`)
}

/** Without a host, all addresses of both families. */
export function listenMultiaddr({ host, port }: ListenAddress): string {
  if (host !== undefined && host !== '') return `/${isIP(host) === 6 ? 'ip6' : 'ip4'}/${host}/tcp/${port}`
  const hasIPv6 = Object.values(networkInterfaces()).some((list) => list?.some(({ family }) => family === 'IPv6'))
  return hasIPv6 ? `/ip6/::/tcp/${port}` : `/ip4/0.0.0.0/tcp/${port}`
}

/** Whether the address is one of this machine's, at the port on which this replica listens. */
export function isOwnAddress(address: string, ownPort: number): boolean {
  const place = parseHostPort(address)
  if (place?.port !== ownPort) return false
  return Object.values(networkInterfaces()).some((list) => list?.some((own) => own.address === place.host))
}
