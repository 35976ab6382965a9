import { Reader } from './wire.ts'

/**
 * The bytes of a sub-message as they came, unknown fields and their order included; `undefined` if it is absent.
 *
 * @throws KasError INVALID_MESSAGE if `message` is malformed
 * @see doc/reference/tunnel-protocol.md 1.19
 */
export function fieldBytes(message: Uint8Array, fieldNo: number): Uint8Array | undefined {
  const found: Uint8Array[] = []
  const reader = new Reader(message)
  while (reader.next()) if (reader.field === fieldNo) found.push(reader.bytes)
  // parts of one sub-message merge by concatenation; a copy of its own, since it is kept: one in node's pool holds 8 KiB
  return found.length === 0 ? undefined : Uint8Array.from(Buffer.concat(found))
}
