import { dirname } from 'node:path'
import { maxSocketFolderBytes, maxSocketPathBytes } from '../../lib/stale-socket.ts'

/** Options for node:net's `listen`. Without `host` it listens on all interfaces of both families, as Go does. */
export type ListenOptions = { host?: string; port: number; ipv6Only?: boolean } | { path: string }

export const networks = ['tcp', 'tcp4', 'tcp6', 'unix'] as const
export type Network = (typeof networks)[number]

/** Forms of an address, for error texts. */
export const addressForms = 'host:port, :port or [ipv6]:port with a port from 0 to 65535 (a path if network is unix)'

/**
 * Converts `network` and `address` of a `listen` block to the form of node:net; undefined: it is no address.
 *
 * @see doc/reference/tunnel-protocol.md 7.1
 */
export function parseListenAddress(network: Network, address: string): ListenOptions | undefined {
  if (network === 'unix') return address === '' ? undefined : { path: address }
  const match = /^(?:\[(?<ipv6>[0-9a-fA-F:.]+(?:%\w+)?)\]|(?<name>[^:[\]\s/]*)):(?<port>\d{1,5})$/.exec(address)
  const port = Number(match?.groups?.port)
  if (!match || port > 65_535) return undefined
  const host = match.groups?.ipv6 ?? match.groups?.name ?? ''
  if (host !== '') return { host, port }
  if (network === 'tcp4') return { host: '0.0.0.0', port }
  return network === 'tcp6' ? { host: '::', port, ipv6Only: true } : { port }
}

/** Form that `isSocketPath` accepts, for error texts. */
export const socketPathForm = `a path that begins with /, of ${maxSocketPathBytes} bytes at most, its folder of ${maxSocketFolderBytes}`

/** True for a path of a Unix socket that does not depend on the working folder. */
export function isSocketPath(path: string): boolean {
  const fits = Buffer.byteLength(path) <= maxSocketPathBytes && Buffer.byteLength(dirname(path)) <= maxSocketFolderBytes
  return path.startsWith('/') && fits
}

/** Keys that all `listen` blocks of the configuration have. */
export interface Listen {
  readonly network: Network
  readonly address: string
  readonly certificate_file?: string | undefined
  readonly key_file?: string | undefined
}
