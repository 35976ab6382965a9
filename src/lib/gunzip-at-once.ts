import { gunzipSync } from 'node:zlib'

/** The shortest gzip: a head, nothing, a check sum and a length. */
const minGzipBytes = 18
/** What a sender says is as long as nothing takes no step a byte. */
const minChunkBytes = 1024

/**
 * Unpacks what is small, where it stands: beside the event loop it would cost ten times that. A chunk of zlib is as long
 * as the message: of its 16 KiB most would be garbage, or be kept by the few that are read.
 *
 * @returns undefined: unpacked it is longer
 * @throws Error as zlib does: it is no gzip
 */
export function gunzipAtOnce(packed: Buffer, maxBytes: number): Buffer | undefined {
  // the sender's own word, which is checked by the bound
  const said = packed.length < minGzipBytes ? 0 : packed.readUInt32LE(packed.length - 4)
  if (said > maxBytes) return undefined
  // one byte more: zlib takes another chunk when one is full
  const chunkSize = Math.max(minChunkBytes, said + 1)
  try {
    return gunzipSync(packed, { maxOutputLength: maxBytes, chunkSize })
  } catch (error) {
    if (isTooLongUnpacked(error)) return undefined
    throw error
  }
}

/** Of zlib, at `maxOutputLength`. */
export function isTooLongUnpacked(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
}
