import * as grpc from '@grpc/grpc-js'
import type { Metadata } from '../../../proto/call.ts'

/** Metadata between grpc-js' form and ours. */

export function fromGrpc(metadata: grpc.Metadata): Metadata {
  const result: Record<string, string[]> = Object.create(null) // a caller may name a key `constructor`
  for (const [key, values] of Object.entries(metadata.toJSON())) {
    result[key] = values.map((value) => (typeof value === 'string' ? value : value.toString('base64')))
  }
  return result
}

/**
 * What cannot be sent is left out: an agent tells its metadata, and grpc-js throws for some of it where nobody can
 * catch that.
 */
export function toGrpc(metadata: Metadata): grpc.Metadata {
  const result = new grpc.Metadata()
  for (const [key, values] of Object.entries(metadata)) {
    if (!validKey.test(key) || notSent.has(key) || key.startsWith('grpc-')) continue
    const binary = key.endsWith('-bin')
    for (const value of singleValued.has(key) ? values.slice(0, 1) : values) {
      if (binary) result.add(key, Buffer.from(value, 'base64'))
      else if (validValue.test(value)) result.add(key, value)
    }
  }
  return result
}

const validKey = /^[0-9a-z_.-]+$/
const validValue = /^[ -~]*$/

/** HTTP/2 forbids these, or they are gRPC's own. */
const notSent = new Set([
  'connection',
  'content-length',
  'content-type',
  'date',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])

/** node:http2 refuses a second value of these. */
const singleValued = new Set([
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
