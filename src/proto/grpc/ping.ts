import type { Http2Session } from 'node:http2'
import { KasError } from '../../lib/errors.ts'

/**
 * Measures a round trip. Node sends no PING on a session that is being closed, though calls may run on it for hours.
 * There an empty SETTINGS frame does the same, since it must be acknowledged too.
 *
 * @returns the round trip in ms. Rejects with TUNNEL_LOST (delivery none) if the connection ends first, or has not
 *   begun
 */
export function ping(session: Http2Session): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const lose = () => reject(new KasError({ code: 'TUNNEL_LOST', delivery: 'none' }))
  if (session.destroyed || session.connecting) lose()
  else if (session.closed) {
    const sentAt = performance.now()
    session.once('close', lose)
    session.settings({}, (error) => {
      session.off('close', lose)
      if (error) lose()
      else resolve(performance.now() - sentAt) // Node's own figure is of another clock
    })
  } else if (!session.ping((error, ms) => (error ? lose() : resolve(ms)))) lose()
  return promise
}
