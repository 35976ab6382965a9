import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf'
import { KasError } from '../lib/errors.ts'

/**
 * Decodes a message of another program; only this function does so. Unknown fields are dropped, because each one would
 * be an object, thirty times as large as its bytes. So messages are passed on as the received bytes, and never encoded
 * again.
 *
 * @throws KasError INVALID_MESSAGE
 */
export function decodeMessage<T extends DescMessage>(schema: T, bytes: Uint8Array): MessageShape<T> {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false })
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `malformed ${schema.typeName}` }, { cause })
  }
}
