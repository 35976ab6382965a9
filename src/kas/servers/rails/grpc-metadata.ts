import * as grpc from '@grpc/grpc-js'
import type { Metadata } from '../../../call/call.ts'
import { isSendableName, sendableValues } from '../../../proto/grpc/sendable.ts'

/** Converts metadata between grpc-js' form and the one of kas. */

/** Characters that grpc-js accepts in a value. */
const isPrintableAscii = /^[ -~]*$/

export function fromGrpc(metadata: grpc.Metadata): Metadata {
  const result: Record<string, string[]> = Object.create(null) // a caller may name a key `constructor`
  for (const [key, values] of Object.entries(metadata.toJSON())) {
    result[key] = values.map((value) => (typeof value === 'string' ? value : value.toString('base64')))
  }
  return result
}

/**
 * Converts metadata, and drops values that cannot be sent. Metadata also comes from agents, and grpc-js throws for some
 * of it where the error cannot be caught.
 */
export function toGrpc(metadata: Metadata): grpc.Metadata {
  const result = new grpc.Metadata()
  for (const [key, values] of Object.entries(metadata)) {
    if (!isSendableName(key) || key.startsWith('grpc-')) continue
    const binary = key.endsWith('-bin')
    for (const value of sendableValues(key, values)) {
      if (binary) result.add(key, Buffer.from(value, 'base64'))
      else if (isPrintableAscii.test(value)) result.add(key, value)
    }
  }
  return result
}
