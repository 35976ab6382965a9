import { encodeHttpRequest } from '../../../proto/http-over-grpc.ts'
import type { ByteSource } from './byte-source.ts'

/** A request as the messages of its call (wire-protocol 1.3), made as they are asked for. */

/** Without a body, which most are: header and trailer at once. */
export class BodilessMessages implements AsyncIterableIterator<Uint8Array> {
  readonly #header: Uint8Array
  #sent = 0

  constructor(header: Uint8Array) {
    this.#header = header
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<Uint8Array>> {
    const at = this.#sent++
    if (at === 0) return Promise.resolve({ done: false, value: this.#header })
    if (at === 1) return Promise.resolve({ done: false, value: encodeHttpRequest.trailer })
    return Promise.resolve({ done: true, value: undefined })
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    this.#sent = 2
    return Promise.resolve({ done: true, value: undefined })
  }
}

/** @param openBody - called when the body is asked for first */
export async function* bodyMessages(header: Uint8Array, openBody: () => ByteSource): AsyncGenerator<Uint8Array> {
  yield header
  const body = openBody()
  for (let chunk = await body.read(); chunk; chunk = await body.read()) yield encodeHttpRequest.data(chunk)
  yield encodeHttpRequest.trailer
}

/**
 * An upgrade: no half-close until the cluster has answered, then the bytes of the connection.
 *
 * @param switched - the connection once it is upgraded; undefined if it will not be
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
