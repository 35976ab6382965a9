import { randomBytes } from 'node:crypto'

/** size of a large body, which repeats one of the chunks below */
export const largeBytes = 64 * 1024 * 1024
const chunkBytes = 64 * 1024

export const noise = randomBytes(chunkBytes)
/** a text like that of a log */
export const text = Buffer.alloc(chunkBytes, '2026-01-01T00:00:00Z level=info msg="reconciled the object" name=web-1\n')
