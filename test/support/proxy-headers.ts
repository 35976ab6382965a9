import { isIPv4 } from 'node:net'

export interface ProxyHeaderV2 {
  /** address of the client, IPv4 or IPv6; absent: no addresses */
  readonly from?: string
  /** version, 4 bits; default 2 */
  readonly version?: number
  /** command, 4 bits: 0 LOCAL, 1 PROXY; default 1 */
  readonly command?: number
  /** family and transport, a byte; default: TCP of `from` */
  readonly family?: number
  /** bytes after the addresses */
  readonly more?: Buffer
}

/** A header of version 1. */
export const proxyHeaderV1 = (from: string): string =>
  `PROXY TCP${isIPv4(from) ? 4 : 6} ${from} ${isIPv4(from) ? '127.0.0.1' : '::1'} 51000 443\r\n`

export function proxyHeaderV2({
  from,
  version = 2,
  command = 1,
  family,
  more = Buffer.alloc(0),
}: ProxyHeaderV2): Buffer {
  const isOfIPv4 = from === undefined || isIPv4(from)
  const addresses = from === undefined ? Buffer.alloc(0) : Buffer.alloc(isOfIPv4 ? 12 : 36)
  if (from !== undefined) bytesOf(from).copy(addresses)
  const head = Buffer.from('\r\n\r\n\0\r\nQUIT\n\0\0\0\0', 'latin1')
  head[12] = (version << 4) | command
  head[13] = family ?? (isOfIPv4 ? 0x11 : 0x21)
  head.writeUInt16BE(addresses.length + more.length, 14)
  return Buffer.concat([head, addresses, more])
}

function bytesOf(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number))
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const [before, after] = [head, tail].map((half) => half.split(':').filter(Boolean)) as [string[], string[]]
  const groups = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after]
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex')
}
