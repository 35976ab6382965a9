import type { Http2Session } from 'node:http2'
import type { Duplex } from 'node:stream'

/**
 * Resolves once the connection has ended, for whatever reason. From then on the session holds nothing of ours: node
 * keeps one whose other side never acknowledged its SETTINGS for ever, and what its listeners reach with it.
 *
 * @param duplex - what the session is on; if that has ended already, the session is destroyed, for node would wait
 */
export function whenClosed(session: Http2Session, duplex: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const ended = () => {
      session.removeAllListeners()
      session.on('error', () => undefined) // none comes after the end; but one would end the process
      resolve()
    }
    session.on('close', ended)
    if (!duplex.destroyed) return
    session.destroy()
    queueMicrotask(ended) // node's 'close' follows that of the duplex, which has been
  })
}
