import type { Http2Session } from 'node:http2'
import { monotonicClock } from '../../lib/clock.ts'
import { RateLimit } from '../../lib/rate-limit.ts'

/** Peers whose windows follow the way send a few a second. */
const rate = { perSecond: 100, burst: 1000 }

/** Calls `onFlood` once a peer sends more SETTINGS than any has use for: each is read and acknowledged. */
export function watchSettings(session: Http2Session, onFlood: () => void): void {
  const rateLimit = new RateLimit(monotonicClock, rate)
  session.on('remoteSettings', () => {
    if (rateLimit.take(1) > 0) onFlood()
  })
}
