/** What messages hold, counted before any of it is built: two bytes may stand for a whole object. */

interface Field {
  readonly number: number
  /** of a message, a text or bytes; else empty */
  readonly bytes: Uint8Array
}

/**
 * How many fields a message has at its top level, repeated ones each time. Counting stops past `max`.
 *
 * @returns `max + 1` if there are more; of bytes that are no message, those before the fault
 */
export function fieldCount(bytes: Uint8Array, max: number): number {
  let count = 0
  for (const _ of fieldsOf(bytes)) if (++count > max) break
  return count
}

/** As `fieldCount`, of the messages that stand in the field `number` of a message. */
export function fieldCountWithin(bytes: Uint8Array, number: number, max: number): number {
  let count = 0
  for (const field of fieldsOf(bytes)) {
    if (field.number === number) count += fieldCount(field.bytes, max - count)
    if (count > max) break
  }
  return count
}

const nothing = new Uint8Array()

function* fieldsOf(bytes: Uint8Array): Generator<Field, void, void> {
  let at = 0
  const varint = () => {
    let value = 0
    for (let factor = 1; at < bytes.length; factor *= 128) {
      const byte = bytes[at++] as number
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
    return Number.POSITIVE_INFINITY
  }
  while (at < bytes.length) {
    const tag = varint()
    const wireType = tag % 8
    let length = 0
    if (wireType === 0) varint()
    else if (wireType === 1) at += 8
    else if (wireType === 2) length = varint()
    else if (wireType === 5) at += 4
    else return // a group, or none: no message of ours has one
    yield { number: Math.floor(tag / 8), bytes: length > 0 ? bytes.subarray(at, at + length) : nothing }
    at += length
  }
}
