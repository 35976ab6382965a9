import type { IncomingMessage } from 'node:http'
import { type Clock, monotonicClock } from '../../../../lib/clock.ts'
import { type Rate, RateLimit } from '../../../../lib/rate-limit.ts'

/** Bound of short chunks: node takes about a µs and 250 bytes for each, and it has six bytes on the wire. bytes */
const shortBytes = 64
/** Short chunks of a request that wait without being joined. */
const maxApart = 256
/** Rate of a request's short chunks: a socket brings 10,000 at once, which delay the next turn of the event loop. */
const shortRate: Rate = { perSecond: 10_000, burst: 256 }

/**
 * Joins short chunks of a chunked body that come in the same turn of the event loop, and slows down clients that send
 * too many. Otherwise a stranger's body of single bytes would cost as much as a thousand requests.
 *
 * @param onChunk - called when node has read some of the body
 */
export function coalesceChunks(request: IncomingMessage, clock: Clock = monotonicClock, onChunk = () => {}): void {
  const push = request.push
  const rateLimit = new RateLimit(clock, shortRate)
  let apart: Buffer[] = []
  let joined: Buffer[] = []
  let count = 0
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
  const onTurn = () => {
    join()
    const waitMs = rateLimit.take(count)
    count = 0
    if (waitMs > 0) clock.after(waitMs, pass)
    else pass()
  }
  request.push = (chunk: Buffer | null) => {
    onChunk()
    if (chunk === null || chunk.length >= shortBytes) {
      if (bytes > 0) pass() // keeps the order
      return push.call(request, chunk)
    }
    apart.push(chunk)
    count += 1
    bytes += chunk.length
    if (apart.length >= maxApart) join()
    if (!isDue) setImmediate(onTurn)
    isDue = true
    return rateLimit.units > count && request.readableLength + bytes < request.readableHighWaterMark
  }
}
