import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2'
import type { Metadata } from '../../call/call.ts'
import { Code, KasError } from '../../lib/errors.ts'
import { bodyTrailersKey } from './body-trailers.ts'
import {
  encodeStatusText,
  isSendableName,
  MetadataBudget,
  maxStatusDetailsBytes,
  metadataCut,
  metadataCutKey,
  sendableValues,
} from './sendable.ts'

/** Metadata, status and time-outs in HTTP/2 headers. */

const unread = new Set(['content-type', 'te', 'date', bodyTrailersKey])

/**
 * Reads metadata from raw headers, names and values in turn. Repeated keys are separate there; the parsed form drops
 * them. All headers but those of gRPC and HTTP/2 are kept.
 */
export function readMetadata(raw: readonly string[]): Metadata {
  const metadata: Record<string, string[]> = Object.create(null) // a peer may send a key `constructor`
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const key = raw[i] as string
    if (key.charCodeAt(0) === 58 /* : */ || unread.has(key)) continue
    if (key.startsWith('grpc-') && key !== 'grpc-status-details-bin') continue
    const value = raw[i + 1] as string
    // one header may carry several binary values
    const values = key.endsWith('-bin') ? value.split(',').map((one) => one.trim()) : [value]
    const known = metadata[key]
    if (known) known.push(...values)
    else metadata[key] = values
  }
  return metadata
}

/** Adds metadata to headers. Values that HTTP/2 does not allow, or that exceed the bounds, are left out. */
export function writeMetadata(into: OutgoingHttpHeaders, metadata: Metadata, maxBytes?: number): void {
  const budget = new MetadataBudget(maxBytes)
  for (const key in metadata) {
    if (key === bodyTrailersKey || !isSendableName(key)) continue
    const values = sendableValues(key, metadata[key] as readonly string[])
    const fitting = values.filter((value) => budget.take(key, value.length))
    if (fitting.length < values.length) into[metadataCutKey] = metadataCut
    if (fitting.length === 1) into[key] = fitting[0]
    else if (fitting.length > 1) into[key] = key.endsWith('-bin') ? fitting.join(',') : fitting
  }
}

export function writeStatus(into: OutgoingHttpHeaders, error: KasError | undefined): void {
  into['grpc-status'] = String(error?.grpcCode ?? Code.OK)
  if (!error) return
  if (error.message) into['grpc-message'] = encodeStatusText(error.message)
  const details = error.spec.code === 'STATUS' ? error.spec.details : undefined
  if (details && details.length <= maxStatusDetailsBytes) {
    into['grpc-status-details-bin'] = Buffer.from(details).toString('base64')
  }
}

/** Returns the status of trailers; undefined: OK. */
export function readStatus(headers: IncomingHttpHeaders): KasError | undefined {
  const text = headers['grpc-status']
  if (text === '0') return undefined
  const grpc = Number(text)
  if (!Number.isInteger(grpc) || grpc < 0) {
    return new KasError({ code: 'STATUS', grpc: Code.UNKNOWN, message: `grpc-status ${String(text)} is no code` })
  }
  const message = decodeMessage(String(headers['grpc-message'] ?? ''))
  const details = headers['grpc-status-details-bin']
  return new KasError({
    code: 'STATUS',
    grpc,
    message,
    ...(typeof details === 'string' ? { details: Buffer.from(details, 'base64') } : {}),
  })
}

const unitMs: Record<string, number> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 }

/** Returns milliseconds; undefined: absent or malformed. */
export function readTimeout(value: string | string[] | undefined): number | undefined {
  const match = typeof value === 'string' ? /^(\d{1,8})([HMSmun])$/.exec(value) : null
  return match ? Number(match[1]) * (unitMs[match[2] as string] as number) : undefined
}

export function writeTimeout(ms: number): string {
  const rounded = Math.max(0, Math.ceil(ms))
  return rounded < 1e8 ? `${rounded}m` : `${Math.ceil(rounded / 1000)}S`
}

function decodeMessage(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text // malformed escapes are shown as received
  }
}

const resetCodes: Record<number, [grpc: number, text: string]> = {
  7: [Code.UNAVAILABLE, 'stream refused'],
  8: [Code.CANCELLED, 'call cancelled'],
  11: [Code.RESOURCE_EXHAUSTED, 'enhance your calm'],
  12: [Code.PERMISSION_DENIED, 'inadequate security'],
}

/** Status for an RST_STREAM of the other side; code 0 without a status is an invalid answer. */
export function resetStatus(http2Code: number): KasError {
  const [grpc, message] = resetCodes[http2Code] ?? [Code.INTERNAL, `stream reset with HTTP/2 code ${http2Code}`]
  return new KasError({ code: 'STATUS', grpc, message })
}

const httpCodes: Record<number, number> = {
  400: Code.INTERNAL,
  401: Code.UNAUTHENTICATED,
  403: Code.PERMISSION_DENIED,
  404: Code.UNIMPLEMENTED,
  429: Code.UNAVAILABLE,
  502: Code.UNAVAILABLE,
  503: Code.UNAVAILABLE,
  504: Code.UNAVAILABLE,
}

/** Status for an answer without a gRPC status. */
export function httpStatus(status: number): KasError {
  const message = `unexpected HTTP status code ${status}`
  return new KasError({ code: 'STATUS', grpc: httpCodes[status] ?? Code.UNKNOWN, message })
}
