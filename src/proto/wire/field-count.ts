import { Reader } from './wire.ts'

/** Counts the content of messages before objects are built: two bytes may mean a whole object. */

/**
 * Counts the fields at the top level of a message, repeated ones each time. Counting stops above `max`.
 *
 * @returns `max + 1` if there are more
 * @throws KasError INVALID_MESSAGE if the read part of `message` is malformed
 */
export function fieldCount(message: Uint8Array, max: number): number {
  let count = 0
  const reader = new Reader(message)
  while (count <= max && reader.next()) count++
  return count
}

/** Counts as `fieldCount` does, in the messages of a message's field `number`. */
export function fieldCountWithin(message: Uint8Array, number: number, max: number): number {
  let count = 0
  const reader = new Reader(message)
  while (count <= max && reader.next()) if (reader.field === number) count += fieldCount(reader.bytes, max - count)
  return count
}
