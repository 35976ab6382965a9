import type { OutgoingHttpHeaders } from 'node:http2'
import { KasError } from '../../lib/errors.ts'
import { headerLines, readHeaderLines } from './body-trailers.ts'
import { isSendableValue } from './sendable.ts'

/**
 * A lane is a stream that carries one call after another, between two programs of this project (doc/decisions/0018).
 * Each of its messages is a frame with a kind in its first byte. HTTP/2's headers are lines in such a frame.
 */

/** `/package.Service/Method` of lanes. */
export const laneMethod = '/kas.replica.v1.Lanes/Carry'

/** Trailer with the number of calls that began on a lane, sent at its end: later calls were not delivered. */
export const begunKey = 'kas-begun'

export const frameKind = { message: 0, head: 1, interim: 2, end: 3, trailers: 4 } as const
export type HeaderKind = 'head' | 'interim' | 'trailers'

/** First byte of a message. */
export const messageHead = Uint8Array.of(frameKind.message)
export const endFrame = Uint8Array.of(frameKind.end)

const lineEnd = '\r\n'

export function encodeHeaders(kind: HeaderKind, headers: OutgoingHttpHeaders): Buffer {
  return encodeText(kind, headerLines(headers))
}

/**
 * Encodes the beginning of a call.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function encodeCall(method: string, headers: OutgoingHttpHeaders): Buffer {
  if (!isMethod(method)) throw malformed(`the method ${JSON.stringify(method)}`)
  return encodeText('head', method + lineEnd + headerLines(headers))
}

/**
 * Returns names and values in turn.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function decodeHeaders(frame: Uint8Array, maxBytes: number): string[] {
  return readHeaderLines(decodeText(frame, maxBytes))
}

/** @throws KasError INVALID_MESSAGE */
export function decodeCall(frame: Uint8Array, maxBytes: number): { readonly method: string; readonly raw: string[] } {
  if (frame[0] !== frameKind.head) throw forbidden(frame)
  const text = decodeText(frame, maxBytes)
  const end = text.indexOf(lineEnd)
  const method = text.slice(0, Math.max(0, end))
  if (!isMethod(method)) throw malformed('a call without a method')
  return { method, raw: readHeaderLines(text, end + lineEnd.length) }
}

/** @throws KasError MESSAGE_TOO_LARGE */
export function checkMessage({ length }: Uint8Array, maxBytes: number): void {
  if (length > maxBytes) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: length, maxBytes })
}

/** Error for a frame that is not allowed at its place. */
export function forbidden(frame: Uint8Array): KasError {
  return malformed(`a frame of kind ${frame[0]} out of its order`)
}

export function malformed(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail: `malformed lane: ${detail}` })
}

const isMethod = (method: string) => method.startsWith('/') && isSendableValue(method)

function encodeText(kind: HeaderKind, text: string): Buffer {
  return Buffer.from(String.fromCharCode(frameKind[kind]) + text, 'latin1')
}

function decodeText(frame: Uint8Array, maxBytes: number): string {
  if (frame.length > maxBytes) throw malformed(`headers of ${frame.length} bytes, allowed: ${maxBytes}`)
  return Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength).toString('latin1', 1)
}
