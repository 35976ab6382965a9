import { Reader } from './wire.ts'

/** What messages hold, counted before any of it is built: two bytes may stand for a whole object. */

/**
 * How many fields a message has at its top level, repeated ones each time. Counting stops past `max`.
 *
 * @returns `max + 1` if there are more
 * @throws KasError INVALID_MESSAGE if `message` is malformed as far as it is read
 */
export function fieldCount(message: Uint8Array, max: number): number {
  let count = 0
  const reader = new Reader(message)
  while (count <= max && reader.next()) count++
  return count
}

/** As `fieldCount`, of the messages that stand in the field `number` of a message. */
export function fieldCountWithin(message: Uint8Array, number: number, max: number): number {
  let count = 0
  const reader = new Reader(message)
  while (count <= max && reader.next()) if (reader.field === number) count += fieldCount(reader.bytes, max - count)
  return count
}
