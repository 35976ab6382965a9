import { gunzipSync } from 'node:zlib'

/** The shortest gzip: a head, no data, a checksum and a length. */
const minGzipBytes = 18
/** Least chunk: otherwise a sender that claims a length of zero would cause a step for each byte. */
const minChunkBytes = 1024

/**
 * Unpacks a small message synchronously: in another thread it would cost ten times as much. A chunk of zlib is as long
 * as the message. Most of the default 16 KiB would be garbage, or stay referenced by a few bytes.
 *
 * @returns undefined: the unpacked message is longer than `maxBytes`
 * @throws Error of zlib: it is no gzip
 */
export function gunzipAtOnce(packed: Buffer, maxBytes: number): Buffer | undefined {
  // the length that the sender claims; the bound is checked below
  const said = packed.length < minGzipBytes ? 0 : packed.readUInt32LE(packed.length - 4)
  if (said > maxBytes) return undefined
  // one byte more: zlib allocates another chunk when one is full
  const chunkSize = Math.max(minChunkBytes, said + 1)
  try {
    return gunzipSync(packed, { maxOutputLength: maxBytes, chunkSize })
  } catch (error) {
    if (isTooLongUnpacked(error)) return undefined
    throw error
  }
}

/** True for zlib's error at `maxOutputLength`. */
export function isTooLongUnpacked(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
}
