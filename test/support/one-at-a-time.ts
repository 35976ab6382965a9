import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'

/**
 * Runs `work` while no other process of this machine runs any under the same name. It listens on that name, and waiting
 * processes are connected to it. When a process is killed, the kernel closes its socket and frees the name. On Linux.
 */
export async function oneAtATime<T>(name: string, work: () => Promise<T>): Promise<T> {
  const path = `\0${name}`
  const waiting = new Set<Socket>()
  const server = createServer((socket) => waiting.add(socket.on('error', () => undefined)))
  while (!(await isMine(server, path))) await itsEnd(path)
  try {
    return await work()
  } finally {
    server.close()
    for (const socket of waiting) socket.destroy()
  }
}

async function isMine(server: Server, path: string): Promise<boolean> {
  try {
    await once(server.listen(path), 'listening')
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    return false
  }
}

/** Resolves at the end of the process that has the name; at once if it has ended already. */
async function itsEnd(path: string): Promise<void> {
  const socket = connect(path)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.on('error', () => undefined).resume() // it is closed then
  await closed
}
