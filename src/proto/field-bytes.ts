import { Reader } from './wire.ts'

/**
 * The bytes of a sub-message as they came, unknown fields and their order included; `undefined` if it is absent.
 *
 * @throws KasError INVALID_MESSAGE if `message` is malformed
 * @see wire-protocol 1.19
 */
export function fieldBytes(message: Uint8Array, fieldNo: number): Uint8Array | undefined {
  const found: Uint8Array[] = []
  const reader = new Reader(message)
  while (reader.next()) if (reader.field === fieldNo) found.push(reader.bytes)
  return found.length === 0 ? undefined : Buffer.concat(found) // parts of one sub-message merge by concatenation
}
