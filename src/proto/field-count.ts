/**
 * How many fields a message has at its top level, repeated ones each time: two bytes that stand for a whole object are
 * counted before any is built. Counting stops past `max`.
 *
 * @returns `max + 1` if there are more; of bytes that are no message, those before the fault
 */
export function fieldCount(bytes: Uint8Array, max: number): number {
  let count = 0
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
  while (at < bytes.length && count <= max) {
    const wireType = varint() % 8
    if (wireType === 0) varint()
    else if (wireType === 1) at += 8
    else if (wireType === 5) at += 4
    else if (wireType === 2) {
      const length = varint() // which moves `at`
      at += length
    } else return count // a group, or none: no message of ours has one
    count++
  }
  return count
}
