import { once } from 'node:events'
import { connect, type NetConnectOpts } from 'node:net'

/**
 * Makes a connection, and ends it.
 *
 * @returns the reason for a failure; undefined: the connection was made
 */
export async function connectProblem(to: NetConnectOpts, timeoutMs: number): Promise<string | undefined> {
  const socket = connect(to)
  try {
    await once(socket, 'connect', { signal: AbortSignal.timeout(timeoutMs) })
    return undefined
  } catch (error) {
    const { name, message, code } = error as NodeJS.ErrnoException // an AggregateError has only a code
    return name === 'AbortError' || name === 'TimeoutError' ? `no connection within ${timeoutMs} ms` : message || code
  } finally {
    socket.destroy()
  }
}
