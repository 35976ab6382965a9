import type { Http2Session } from 'node:http2'

/** SETTINGS of one peer in one period: those whose windows follow the way send a few a second. */
const maxSettings = 1000
const periodMs = 10_000

/** Calls `onFlood` once a peer sends more SETTINGS than any has use for: each is read and acknowledged. */
export function watchSettings(session: Http2Session, onFlood: () => void): void {
  let count = 0
  let since = performance.now()
  session.on('remoteSettings', () => {
    const now = performance.now()
    if (now - since > periodMs) {
      since = now
      count = 0
    }
    if (++count === maxSettings + 1) onFlood()
  })
}
