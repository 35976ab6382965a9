import { once } from 'node:events'
import { connect, type NetConnectOpts } from 'node:net'

/**
 * Makes a connection, and ends it.
 *
 * @returns why there is none; undefined: there was one
 */
export async function connectProblem(to: NetConnectOpts, timeoutMs: number): Promise<string | undefined> {
  const socket = connect(to)
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(timeoutMs) })
    return undefined
  } catch (error) {
    const { name, message, code } = error as NodeJS.ErrnoException // several addresses that fail have a code alone
    return name === 'AbortError' || name === 'TimeoutError' ? `no connection within ${timeoutMs} ms` : message || code
  } finally {
    socket.destroy()
  }
}
