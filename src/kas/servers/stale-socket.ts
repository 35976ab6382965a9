import { once } from 'node:events'
import { lstat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'

/** Removes the Unix socket that a process left which was killed: one that nobody answers. Anything else stays. */
export async function removeStaleSocket(path: string): Promise<void> {
  const isSocket = await lstat(path).then(
    (stats) => stats.isSocket(),
    () => false,
  )
  if (!isSocket) return // listening tells what is wrong
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') await unlink(path)
  } finally {
    socket.destroy()
  }
}
