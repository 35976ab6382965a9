import type { Http2Session } from 'node:http2'
import { Bucket } from '../../lib/bucket.ts'
import { monotonicClock } from '../../lib/clock.ts'

/** Peers whose windows follow the way send a few a second. */
const rate = { perSecond: 100, burst: 1000 }

/** Calls `onFlood` once a peer sends more SETTINGS than any has use for: each is read and acknowledged. */
export function watchSettings(session: Http2Session, onFlood: () => void): void {
  const bucket = new Bucket(monotonicClock, rate)
  session.on('remoteSettings', () => {
    if (bucket.take(1) > 0) onFlood()
  })
}
