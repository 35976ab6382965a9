import type { Metadata } from '../../call/call.ts'

/**
 * What HTTP/2 takes of metadata, and how much: one filter for all that is written. What came from a tenant must cost his
 * own call alone: node ends a whole connection over a head that does not fit its frame, and over many that the other
 * side finds invalid.
 */

/** Names and values of a reply's head or of trailers; gRPC's own default. bytes */
export const maxMetadataBytes = 8 * 1024
/** As much, of a request: its sender's own credentials and headers go along. A head has to fit 64 KiB. */
export const maxRequestMetadataBytes = 32 * 1024
/** node resets a stream whose head has more than 128 lines, of which some are HTTP/2's and gRPC's. */
export const maxMetadataValues = 100
/** `grpc-message`, as it is encoded. bytes */
export const maxStatusTextBytes = 8 * 1024
/** `grpc-status-details-bin`, before it is encoded; larger ones are left out. bytes */
export const maxStatusDetailsBytes = 8 * 1024

/** Says, among what is left of metadata, that some was cut. */
export const metadataCutKey = 'metadata-cut'
export const metadataCut = [`passed on are ${maxMetadataBytes} bytes in ${maxMetadataValues} values at most`]

const nameForm = /^[0-9a-z_.-]+$/
/** NUL ends a value where node hands it over, a line end begins another header, and bytes are all that is sent. */
const valueForm = /^[\t\x20-\x7e\x80-\xff]*$/

/** HTTP/2 forbids them, they say what is not true of the next hop, or they are gRPC's own. */
const reservedNames = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])

/** node:http2 throws for a second value of these. */
const singleValuedNames = new Set([
  'access-control-allow-credentials',
  'access-control-max-age',
  'access-control-request-method',
  'age',
  'authorization',
  'content-encoding',
  'content-language',
  'content-location',
  'content-md5',
  'content-range',
  'dnt',
  'etag',
  'expires',
  'from',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'range',
  'referer',
  'retry-after',
  'tk',
  'upgrade-insecure-requests',
  'x-content-type-options',
])

export function isSendableName(name: string): boolean {
  if (!nameForm.test(name) || reservedNames.has(name)) return false
  return !name.startsWith('grpc-') || name === 'grpc-status-details-bin'
}

export const isSendableValue = (value: string): boolean => valueForm.test(value)

/** The values of `name` that can be sent; `name` itself can. */
export function sendableValues(name: string, values: readonly string[]): readonly string[] {
  const sendable = values.every(isSendableValue) ? values : values.filter(isSendableValue)
  return sendable.length > 1 && singleValuedNames.has(name) ? sendable.slice(0, 1) : sendable
}

/** Counts metadata against its bounds, value by value. */
export class MetadataBudget {
  readonly #maxBytes: number
  #bytes = 0
  #values = 0

  constructor(maxBytes = maxMetadataBytes) {
    this.#maxBytes = maxBytes
  }

  /** @returns whether there was room for it; nothing is taken otherwise */
  take(name: string, valueBytes: number): boolean {
    const bytes = this.#bytes + name.length + valueBytes
    if (bytes > this.#maxBytes || this.#values >= maxMetadataValues) return false
    this.#bytes = bytes
    this.#values++
    return true
  }
}

/** Whether all of it is passed on, as far as its size goes. */
export function fitsBounds(metadata: Metadata): boolean {
  const budget = new MetadataBudget()
  for (const name in metadata) {
    for (const value of metadata[name] as readonly string[]) if (!budget.take(name, value.length)) return false
  }
  return true
}

const cutMark = (bytes: number) => ` ... (cut, of ${bytes} bytes)`

/** The beginning of a text that is too long, and how long it was. */
export function boundedText(text: string): string {
  // what is certainly short is not measured
  return text.length <= maxStatusTextBytes / 3 ? text : boundedUtf8(Buffer.from(text))
}

export function boundedUtf8(bytes: Buffer): string {
  if (bytes.length <= maxStatusTextBytes) return bytes.toString()
  const mark = cutMark(bytes.length)
  const kept = bytes.toString('utf8', 0, maxStatusTextBytes - mark.length)
  return kept.replace(/\ufffd+$/, '') + mark // a character that was cut in two
}

/** Percent-encodes what is not printable ASCII, and the percent sign. */
export function encodeStatusText(text: string): string {
  const encoded = percentEncoded(boundedText(text))
  if (encoded.length <= maxStatusTextBytes) return encoded
  const mark = cutMark(Buffer.byteLength(text))
  // the characters that fit: each takes three times its bytes at the most, and none is cut in two
  let bytes = mark.length
  let kept = ''
  for (const character of text) {
    bytes += percentEncoded(character).length
    if (bytes > maxStatusTextBytes) break
    kept += character
  }
  return percentEncoded(kept) + mark
}

function percentEncoded(text: string): string {
  return text.replace(/[^\x20-\x24\x26-\x7e]+/gu, (run) =>
    Array.from(Buffer.from(run), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}
