import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { isSendableValue } from './sendable.ts'

/**
 * Trailers as the last frame of the body, as in gRPC-Web. They leave with the last message, in one write, while Node
 * writes HTTP/2's own once all else has left. Both sides of such a connection are this project, and each call asks for
 * it.
 */

/** Request header that asks for such trailers, and its value. */
export const bodyTrailersKey = 'kas-trailers'
export const bodyTrailersValue = 'body'

/** Flag of the frame, in the byte that marks a compressed message. */
export const trailersFlag = 0x80

/** Bound of lines, as in Node for HTTP/2's own trailers. */
const maxLines = 128

const nameForm = /^[0-9a-z_.-]+$/

/**
 * Encodes a line for each value, with names in lower case. Values that HTTP/2 does not allow are left out. A line end
 * in a value would make the rest another trailer, which an agent must not do.
 */
export function encodeTrailers(trailers: OutgoingHttpHeaders): Buffer {
  return Buffer.from(headerLines(trailers), 'latin1')
}

/** The same as text in which each character is a byte. */
export function headerLines(headers: OutgoingHttpHeaders): string {
  let text = ''
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined || !nameForm.test(name)) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      if (isSendableValue(String(one))) text += `${name}: ${one}\r\n`
    }
  }
  return text
}

/**
 * Returns names and values in turn.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function decodeTrailers(bytes: Uint8Array): string[] {
  return readHeaderLines(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1'))
}

/**
 * The same for text, from `start` on.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function readHeaderLines(text: string, start = 0): string[] {
  const raw: string[] = []
  for (let at = start; at < text.length; ) {
    const colon = text.indexOf(': ', at)
    const end = text.indexOf('\r\n', at)
    if (colon < 0 || end < colon) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'trailers that are no lines' })
    if (raw.length === 2 * maxLines) {
      throw new KasError({ code: 'INVALID_MESSAGE', detail: `more than ${maxLines} trailers` })
    }
    raw.push(text.slice(at, colon), text.slice(colon + 2, end))
    at = end + 2
  }
  return raw
}

/** Trailers by name; the first value of each. */
export function parsedTrailers(raw: readonly string[]): IncomingHttpHeaders {
  const parsed: IncomingHttpHeaders = {}
  for (let i = 0; i < raw.length; i += 2) parsed[raw[i] as string] ??= raw[i + 1] as string
  return parsed
}
