import * as grpc from '@grpc/grpc-js'
import type { Metadata } from '../../../call/call.ts'
import { isSendableName, sendableValues } from '../../../proto/grpc/sendable.ts'

/** Metadata between grpc-js' form and ours. */

/** All that grpc-js takes in a value. */
const isPrintableAscii = /^[ -~]*$/

export function fromGrpc(metadata: grpc.Metadata): Metadata {
  const result: Record<string, string[]> = Object.create(null) // a caller may name a key `constructor`
  for (const [key, values] of Object.entries(metadata.toJSON())) {
    result[key] = values.map((value) => (typeof value === 'string' ? value : value.toString('base64')))
  }
  return result
}

/**
 * What cannot be sent is left out: metadata comes from agents too, and grpc-js throws for some of it where nobody can
 * catch the error.
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
