import type { Http2Session } from 'node:http2'
import type { Duplex } from 'node:stream'

/**
 * Resolves once the connection has ended, for any reason. From then on the session references nothing of this program.
 * Node keeps a session forever if the other side never acknowledged its SETTINGS, with all that its listeners reach.
 *
 * @param duplex - below the session; if it has ended already, the session is destroyed, because Node would wait
 */
export function whenClosed(session: Http2Session, duplex: Duplex): Promise<void> {
  return new Promise((resolve) => {
    const ended = () => {
      session.removeAllListeners()
      session.on('error', () => undefined) // no error comes after the end, but one would end the process
      resolve()
    }
    session.on('close', ended)
    if (!duplex.destroyed) return
    session.destroy()
    queueMicrotask(ended) // the duplex has closed already, and Node's 'close' would follow its 'close'
  })
}
