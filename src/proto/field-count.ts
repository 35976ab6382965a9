import type { DescMessage } from '@bufbuild/protobuf'
import { KasError } from '../lib/errors.ts'
import { Reader } from './wire/wire.ts'

/**
 * Counts the fields of a message and of all messages in it, before it is decoded. An empty message in it takes two
 * bytes, and a hundred times as much as an object.
 *
 * @throws KasError INVALID_MESSAGE: there are more than `max`, or it is malformed
 */
export function checkFieldCount(schema: DescMessage, bytes: Uint8Array, max: number): void {
  let left = max
  const count = (of: DescMessage, reader: Reader) => {
    while (reader.next()) {
      left -= 1
      if (left < 0) throw new KasError({ code: 'INVALID_MESSAGE', detail: `more than ${max} fields in ${schema.name}` })
      const inner = reader.type === 2 ? of.fields.find(({ number }) => number === reader.field)?.message : undefined
      if (inner) count(inner, reader.message)
    }
  }
  count(schema, new Reader(bytes))
}
