import { createHmac } from 'node:crypto'
import type { Metadata } from '../../../call/call.ts'
import type { GitalyCoordinates } from './gitaly-coordinates.ts'

/** What a name of gRPC metadata may hold; binary values (`-bin`) have no form here. */
const featureName = /^(?!grpc-)[0-9a-z_.-]{1,200}(?<!-bin)$/
const featureValue = /^[\x20-\x7e]{0,1000}$/

/**
 * The metadata of a call: token authentication v2 when there is a token, and features as they are, but for those that
 * metadata cannot carry (doc/reference/tunnel-protocol.md 1.20).
 *
 * @param nowMs - milliseconds since 1970: a Gitaly refuses what is older than a while
 */
export function gitalyMetadata(
  { token, features }: Pick<GitalyCoordinates, 'token' | 'features'>,
  nowMs: number,
): Metadata {
  const sendable = Object.entries(features)
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name, value]) => featureName.test(name) && featureValue.test(value))
    .map(([name, value]) => [name, [value]])
  return { ...Object.fromEntries(sendable), ...(token === '' ? {} : { authorization: [bearer(token, nowMs)] }) }
}

function bearer(token: string, nowMs: number): string {
  const seconds = String(Math.floor(nowMs / 1000))
  return `Bearer v2.${createHmac('sha256', token).update(seconds).digest('hex')}.${seconds}`
}
