import { KnownMessages } from '../../../../call/known-messages.ts'
import { encodeHttpRequest } from '../../../../proto/http/http-over-grpc.ts'
import type { ByteSource } from './byte-source.ts'

/** Encodes a request as the messages of its call, on demand (doc/reference/tunnel-protocol.md 1.3). */

/** Returns the messages of a request without a body, like most requests. */
export function bodilessMessages(header: Uint8Array): KnownMessages {
  return new KnownMessages([header, encodeHttpRequest.trailer])
}

/** @param openBody - called when the body is first read */
export async function* bodyMessages(header: Uint8Array, openBody: () => ByteSource): AsyncGenerator<Uint8Array> {
  yield header
  const body = openBody()
  for (let chunk = await body.read(); chunk; chunk = await body.read()) yield encodeHttpRequest.data(chunk)
  yield encodeHttpRequest.trailer
}

/**
 * Yields the messages of an upgrade: no half-close until the cluster has answered, then the bytes of the connection.
 *
 * @param switched - resolves with the upgraded connection, or undefined: it will not be upgraded
 */
export async function* upgradeMessages(
  header: Uint8Array,
  switched: Promise<ByteSource | undefined>,
): AsyncGenerator<Uint8Array> {
  yield header
  yield encodeHttpRequest.trailer
  const bytes = await switched
  if (!bytes) return
  for (let chunk = await bytes.read(); chunk; chunk = await bytes.read()) yield encodeHttpRequest.upgradeData(chunk)
}
