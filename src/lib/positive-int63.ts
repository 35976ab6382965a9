import { randomBytes } from 'node:crypto'

/** Returns a random positive id of 63 bits, which fits in an int64. */
export function positiveInt63(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n
}
