import type { IncomingMessage } from 'node:http'

/** Bound of short chunks: node takes about a µs and 250 bytes for each, and it has six bytes on the wire. bytes */
const shortBytes = 64
/** Short chunks of a request that wait without being joined. */
const maxApart = 256

/**
 * Joins short chunks of a chunked body that come in the same turn of the event loop. Otherwise each would be a message
 * of its own.
 *
 * @param onChunk - called when node has read some of the body
 */
export function coalesceChunks(request: IncomingMessage, onChunk: (isShort: boolean) => void): void {
  const push = request.push
  let apart: Buffer[] = []
  let joined: Buffer[] = []
  let bytes = 0
  let isDue = false
  const join = () => {
    if (apart.length > 0) joined.push(Buffer.concat(apart))
    apart = []
  }
  const pass = () => {
    join()
    const all = joined
    joined = []
    bytes = 0
    isDue = false
    if (all.length > 0 && !request.destroyed) push.call(request, all.length === 1 ? all[0] : Buffer.concat(all))
  }
  request.push = (chunk: Buffer | null) => {
    const isLong = chunk === null || chunk.length >= shortBytes
    onChunk(!isLong)
    if (isLong) {
      if (bytes > 0) pass() // keeps the order
      return push.call(request, chunk)
    }
    apart.push(chunk)
    bytes += chunk.length
    if (apart.length >= maxApart) join()
    if (!isDue) setImmediate(pass)
    isDue = true
    return request.readableLength + bytes < request.readableHighWaterMark
  }
}
