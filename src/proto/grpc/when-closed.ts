import type { Http2Session } from 'node:http2'

/**
 * Resolves once the connection has ended, for whatever reason. From then on the session holds nothing of ours: node
 * keeps one whose other side never acknowledged its SETTINGS for ever, and what its listeners reach with it.
 */
export function whenClosed(session: Http2Session): Promise<void> {
  return new Promise((resolve) => {
    session.once('close', () => {
      session.removeAllListeners()
      session.on('error', () => undefined) // none comes after the end; but one would end the process
      resolve()
    })
  })
}
