import { isIP, isIPv4, isIPv6 } from 'node:net'

export interface HostPort {
  /** a name, or an address without brackets */
  readonly host: string
  /** 1 to 65535 */
  readonly port: number
}

/** What `parseHostPort` takes, for error texts. */
export const hostPortForms = 'host:port such as "10.0.0.7:8156", "[fd00::1]:8156" or "kas-1.internal:8156"'

const maxNameLength = 253
const nameForm = /^(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*\.?$/i

/** Whether `text` may be the name of a host. What looks like half an address (`10.0.0`) is none. */
export function isHostName(text: string): boolean {
  return text.length <= maxNameLength && nameForm.test(text) && !/^\d+$/.test(text.split('.').at(-1) ?? '')
}

/** `text` taken apart; undefined if it is not of one of `hostPortForms`. */
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

/** IPv6 has many spellings; this gives the short one of RFC 5952. */
function canonicalAddress(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address
}
