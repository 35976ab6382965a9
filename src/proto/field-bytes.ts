import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { KasError } from '../lib/errors.ts'

/**
 * The bytes of a sub-message as they came, unknown fields and their order included; `undefined` if it is absent.
 *
 * @throws KasError INVALID_MESSAGE if `message` is malformed
 * @see wire-protocol 1.19
 */
export function fieldBytes(message: Uint8Array, fieldNo: number): Uint8Array | undefined {
  const found: Uint8Array[] = []
  try {
    const reader = new BinaryReader(message)
    while (reader.pos < reader.len) {
      const [no, type] = reader.tag()
      if (no === fieldNo && type === WireType.LengthDelimited) found.push(reader.bytes())
      else reader.skip(type, no)
    }
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'malformed message' }, { cause })
  }
  return found.length === 0 ? undefined : Buffer.concat(found) // parts of one sub-message merge by concatenation
}
