import { isIP, isIPv4, isIPv6, type Socket } from 'node:net'

export interface HostPort {
  /** a name, or an address without brackets */
  readonly host: string
  /** 1 to 65535 */
  readonly port: number
}

/** Forms that `parseHostPort` accepts, for error texts. */
export const hostPortForms = 'host:port such as "10.0.0.7:8156", "[fd00::1]:8156" or "kas-1.internal:8156"'

/** Characters of a host's name, as in DNS. */
const maxNameLength = 253
const nameForm = /^(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?$/i

/** True if `text` may be the name of a host. A part of an address (`10.0.0`) is none. */
export function isHostName(text: string): boolean {
  return text.length <= maxNameLength && nameForm.test(text) && !/^\d+$/.test(text.split('.').at(-1) ?? '')
}

/** Parses an address with a port; undefined: `text` has none of `hostPortForms`. */
export function parseHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[(?<ipv6>[^[\]]+)\]|(?<host>[^[\]:\s/]+)):(?<port>\d{1,5})$/.exec(text)
  const { ipv6, host, port: digits } = match?.groups ?? {}
  const port = Number(digits)
  if (!match || port < 1 || port > 65_535) return undefined
  if (ipv6 !== undefined)
    return isIPv6(ipv6) && !ipv6.includes('%') ? { host: canonicalAddress(ipv6), port } : undefined
  return host !== undefined && (isIPv4(host) || isHostName(host)) ? { host, port } : undefined
}

/** `10.0.0.7:8156`, `[fd00::1]:8156`: equal for equal addresses, however they were written. */
export function formatHostPort({ host, port }: HostPort): string {
  return isIP(host) === 6 ? `[${canonicalAddress(host)}]:${port}` : `${host}:${port}`
}

/** True if `host` means this machine. */
export function isLoopbackHost(host: string): boolean {
  const plain = plainAddress(host).toLowerCase()
  return /^(.+\.)?localhost\.?$/.test(plain) || plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))
}

/**
 * Returns an address in its usual form: the short form of IPv6, and IPv4 if an IPv6 socket says `::ffff:a00:7` or
 * `::ffff:10.0.0.7`. Any other text is returned as it is.
 */
export function plainAddress(host: string): string {
  const address = canonicalAddress(host)
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(address) ?? []
  if (high === undefined || low === undefined) return address
  const halves = [high, low].map((digits) => Number.parseInt(digits, 16))
  return halves.flatMap((half) => [half >> 8, half & 0xff]).join('.')
}

/** Returns the address, or the first 64 bits of an IPv6 address: their owner has all addresses with these bits. */
export function networkOf(host: string): string {
  const address = plainAddress(host)
  return isIPv6(address) ? firstGroups(address, 4) : address
}

/** Returns the smallest network that the internet routes: a /24 of IPv4, a /48 of IPv6; any other text as it is. */
export function routedNetworkOf(host: string): string {
  const address = plainAddress(host)
  if (isIPv6(address)) return firstGroups(address, 3)
  return isIPv4(address) ? address.slice(0, address.lastIndexOf('.')) : address
}

function firstGroups(address: string, count: number): string {
  const [head, tail] = (address.split('%', 1)[0] as string).split('::').map((half) => half.split(':').filter(Boolean))
  const groups = head as string[]
  const zeros = tail ? Array<string>(Math.max(0, 8 - groups.length - tail.length)).fill('0') : []
  return [...groups, ...zeros, ...(tail ?? [])].slice(0, count).join(':')
}

/** Returns the short form of RFC 5952. */
function canonicalAddress(address: string): string {
  const isPlain = isIPv6(address) && !address.includes('%') // an address with a zone is valid on one link only
  return isPlain ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address
}

/**
 * The remote end of a socket, as `address:port`. An accepted socket and the TLS socket above it are two objects with
 * one remote end. Undefined: it is a Unix socket, or the client has left already.
 */
export function remoteOf({ remoteAddress, remotePort }: Socket): string | undefined {
  return remoteAddress === undefined || remotePort === undefined ? undefined : `${remoteAddress}:${remotePort}`
}

/** Address of a remote end; IPv4 in its usual form, also on a socket of IPv6. */
export function addressOf(remote: string): string {
  return plainAddress(remote.slice(0, remote.lastIndexOf(':')))
}
