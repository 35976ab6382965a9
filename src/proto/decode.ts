import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf'
import { KasError } from '../lib/errors.ts'

/**
 * The one place where messages of others are decoded. Fields that this version does not know are passed over: kept, each
 * of them would be an object, thirty times as large as its bytes. So a message that is passed on is passed on as the bytes
 * that came, and never encoded again.
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
