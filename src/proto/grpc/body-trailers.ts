import type { OutgoingHttpHeaders } from 'node:http2'
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

const nameForm = /^[0-9a-z_.-]+$/

/**
 * A line for each value, names in lower case; what HTTP/2 would not take is left out: a line end in a value would make
 * the rest of it another trailer, which an agent must not say.
 */
export function encodeTrailers(trailers: OutgoingHttpHeaders): Buffer {
  let text = ''
  for (const name in trailers) {
    const value = trailers[name]
    if (value === undefined || !nameForm.test(name)) continue
    for (const one of Array.isArray(value) ? value : [value]) {
      if (isSendableValue(String(one))) text += `${name}: ${one}\r\n`
    }
  }
  return Buffer.from(text, 'latin1')
}

/**
 * Names and values in turn.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function decodeTrailers(bytes: Uint8Array): string[] {
  const raw: string[] = []
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  for (let at = 0; at < text.length; ) {
    const colon = text.indexOf(': ', at)
    const end = text.indexOf('\r\n', at)
    if (colon < 0 || end < colon) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'trailers that are no lines' })
    raw.push(text.slice(at, colon), text.slice(colon + 2, end))
    at = end + 2
  }
  return raw
}
