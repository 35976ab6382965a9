import type { Metadata } from '../../call/call.ts'

/**
 * Rules and bounds of metadata in HTTP/2: one filter for all that is written. Metadata of a tenant must end only its
 * own call. Node ends a whole connection over a head that does not fit its frame, and over many heads that the other
 * side finds invalid.
 */

/** Bound of names and values in a reply's head or in trailers; gRPC's own default. bytes */
export const maxMetadataBytes = 8 * 1024
/** The same bound for a request, which carries its sender's credentials and headers. A head has to fit 64 KiB. bytes */
export const maxRequestMetadataBytes = 32 * 1024
/** Bound of values. Node resets a stream whose head has more than 128 lines, of which some are HTTP/2's and gRPC's. */
export const maxMetadataValues = 100
/** Bound of `grpc-message`, encoded. bytes */
export const maxStatusTextBytes = 8 * 1024
/** Bound of `grpc-status-details-bin` before encoding; larger ones are left out. bytes */
export const maxStatusDetailsBytes = 8 * 1024

/** Key that marks metadata of which a part was cut. */
export const metadataCutKey = 'metadata-cut'
export const metadataCut = [`passed on are ${maxMetadataBytes} bytes in ${maxMetadataValues} values at most`]

const nameForm = /^[0-9a-z_.-]+$/
/**
 * Bytes that can be sent. NUL ends a value in Node, a line end begins another header, and larger characters are no
 * bytes.
 */
const valueForm = /^[\t\x20-\x7e\x80-\xff]*$/

/** Names that HTTP/2 forbids, that describe this hop only, or that are gRPC's own. */
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

/** Names for which node:http2 throws at a second value. */
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

/** Returns the values of `name` that can be sent. The name itself must be sendable. */
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

  /** @returns false: there is no room, and nothing is taken */
  take(name: string, valueBytes: number): boolean {
    const bytes = this.#bytes + name.length + valueBytes
    if (bytes > this.#maxBytes || this.#values >= maxMetadataValues) return false
    this.#bytes = bytes
    this.#values++
    return true
  }
}

/** True if all of the metadata is within the bounds. */
export function fitsBounds(metadata: Metadata): boolean {
  const budget = new MetadataBudget()
  for (const name in metadata) {
    for (const value of metadata[name] as readonly string[]) if (!budget.take(name, value.length)) return false
  }
  return true
}

const cutMark = (bytes: number) => ` ... (cut, of ${bytes} bytes)`

/** Returns the text, or the beginning of a text that is too long, with its length. */
export function boundedText(text: string): string {
  // short texts need no measurement
  return text.length <= maxStatusTextBytes / 3 ? text : boundedUtf8(Buffer.from(text))
}

export function boundedUtf8(bytes: Buffer): string {
  if (bytes.length <= maxStatusTextBytes) return bytes.toString()
  const mark = cutMark(bytes.length)
  const kept = bytes.toString('utf8', 0, maxStatusTextBytes - mark.length)
  return kept.replace(/\ufffd+$/, '') + mark // half of a cut character
}

/** Percent-encodes the percent sign and all characters but printable ASCII. */
export function encodeStatusText(text: string): string {
  const encoded = percentEncoded(boundedText(text))
  if (encoded.length <= maxStatusTextBytes) return encoded
  const mark = cutMark(Buffer.byteLength(text))
  // only whole characters that fit: each takes at most three times its bytes
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
