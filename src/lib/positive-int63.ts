import { randomBytes } from 'node:crypto'

/** Random, positive, 63 bits: an id that an int64 holds. */
export function positiveInt63(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n
}
