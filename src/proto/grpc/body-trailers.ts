import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { isSendableValue } from './sendable.ts'

/**
 * Trailers as the last frame of the body, as gRPC-Web has them: they leave with the last message, in one write, where
 * HTTP/2's own are written by node once all else has left. For connections whose two sides are ours; each call asks
 * for it.
 */

/** The request header that asks for it, and its value. */
export const bodyTrailersKey = 'kas-trailers'
export const bodyTrailersValue = 'body'

/** Marks the frame, in the place where a message says whether it is compressed. */
export const trailersFlag = 0x80

/** As many as node takes in HTTP/2's own. */
const maxLines = 128

const nameForm = /^[0-9a-z_.-]+$/

/**
 * A line for each value, names in lower case; what HTTP/2 would not take is left out: a line end in a value would make
 * the rest of it another trailer, which an agent must not say.
 */
export function encodeTrailers(trailers: OutgoingHttpHeaders): Buffer {
  return Buffer.from(headerLines(trailers), 'latin1')
}

/** The same as text whose characters are bytes. */
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
 * Names and values in turn.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function decodeTrailers(bytes: Uint8Array): string[] {
  return readHeaderLines(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1'))
}

/**
 * The same of text, from `start` on.
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

/** By name, of each the first. */
export function parsedTrailers(raw: readonly string[]): IncomingHttpHeaders {
  const parsed: IncomingHttpHeaders = {}
  for (let i = 0; i < raw.length; i += 2) parsed[raw[i] as string] ??= raw[i + 1] as string
  return parsed
}
