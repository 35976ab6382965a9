import { isIPv4, isIPv6 } from 'node:net'
import { plainAddress } from '../../../lib/host-port.ts'

/** Result of reading the first bytes of a connection as a header of the PROXY protocol. */
export type ProxyHeader =
  /** more bytes are needed to decide */
  | { readonly kind: 'partial' }
  | { readonly kind: 'invalid'; readonly detail: string }
  | {
      readonly kind: 'whole'
      /** length of the header: the client's bytes follow */
      readonly bytes: number
      /** undefined: the front speaks for itself (LOCAL), or does not know its client (UNKNOWN, a Unix socket) */
      readonly address: string | undefined
    }

/** longest header of version 1, with its CRLF */
const maxTextBytes = 107
/** longest header of version 2, with everything that a front may add: names of a certificate, ids of cloud networks */
export const maxProxyHeaderBytes = 4096

const textBegin = Buffer.from('PROXY ')
const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
/** fixed part of version 2: signature, version and command, family and transport, length of the rest */
const fixedBytes = 16
const textForm = /^PROXY (?:UNKNOWN(?: .*)?|TCP(?<family>[46]) (?<from>\S+) (?<to>\S+) (?<ports>\d{1,5} \d{1,5}))$/
const addressBytes = { 4: 12, 6: 36 } as const

const partial: ProxyHeader = { kind: 'partial' }

/**
 * Reads a header of version 1 or 2 at the beginning of `head`. Checks its length before reading it.
 *
 * @see https://www.haproxy.org/download/2.6/doc/proxy-protocol.txt 2.1, 2.2
 */
export function readProxyHeader(head: Buffer): ProxyHeader {
  if (beginsAs(head, signature)) return head.length < fixedBytes ? partial : readBinary(head)
  if (beginsAs(head, textBegin)) return readText(head)
  return invalid('it does not begin with one')
}

/** True if `head` agrees with `begin` as far as both go. */
function beginsAs(head: Buffer, begin: Buffer): boolean {
  const length = Math.min(head.length, begin.length)
  return head.subarray(0, length).equals(begin.subarray(0, length))
}

function readText(head: Buffer): ProxyHeader {
  const end = head.subarray(0, maxTextBytes).indexOf('\r\n')
  if (end < 0) return head.length < maxTextBytes ? partial : invalid(`it is longer than ${maxTextBytes} bytes`)
  const groups = textForm.exec(head.toString('latin1', 0, end))?.groups
  if (!groups) return invalid('it is malformed')
  const bytes = end + 2
  const { family, from = '', to = '', ports = '' } = groups
  if (family === undefined) return { kind: 'whole', bytes, address: undefined }
  const isAddress = family === '4' ? isIPv4 : (text: string) => isIPv6(text) && !text.includes('%')
  const isPort = (port: string) => Number(port) <= 65_535
  if (!isAddress(from) || !isAddress(to) || !ports.split(' ').every(isPort)) return invalid('it is malformed')
  return { kind: 'whole', bytes, address: plainAddress(from) }
}

function readBinary(head: Buffer): ProxyHeader {
  const [version, command] = [head.readUInt8(12) >> 4, head.readUInt8(12) & 15]
  const [family, transport] = [head.readUInt8(13) >> 4, head.readUInt8(13) & 15]
  const length = head.readUInt16BE(14)
  const bytes = fixedBytes + length
  if (version !== 2 || command > 1) return invalid('its version or command is unknown')
  if (bytes > maxProxyHeaderBytes) return invalid(`it is longer than ${maxProxyHeaderBytes} bytes`)
  if (family > 3 || transport > 2) return invalid('its family or transport is unknown')
  if (head.length < bytes) return partial
  const isOfClient = command === 1 && transport === 1 && (family === 1 || family === 2)
  if (!isOfClient) return { kind: 'whole', bytes, address: undefined }
  const isShort = length < addressBytes[family === 1 ? 4 : 6]
  if (isShort) return invalid('its addresses are cut')
  return { kind: 'whole', bytes, address: family === 1 ? ipv4At(head) : ipv6At(head) }
}

function ipv4At(head: Buffer): string {
  return head.subarray(fixedBytes, fixedBytes + 4).join('.')
}

function ipv6At(head: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => head.readUInt16BE(fixedBytes + 2 * i).toString(16))
  return plainAddress(groups.join(':'))
}

function invalid(detail: string): ProxyHeader {
  return { kind: 'invalid', detail }
}
