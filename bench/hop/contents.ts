import { randomBytes } from 'node:crypto'

/** of a large body, which is one of the chunks below again and again */
export const largeBytes = 64 * 1024 * 1024
const chunkBytes = 64 * 1024

export const noise = randomBytes(chunkBytes)
/** as a log has it */
export const text = Buffer.alloc(chunkBytes, '2026-01-01T00:00:00Z level=info msg="reconciled the object" name=web-1\n')
