import type { Socket } from 'node:net'

/** What comes from one goes to the other, and the end of one is the end of both. `sockets` has them as long. */
export function joinSockets(near: Socket, far: Socket, sockets: Set<Socket>): void {
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    sockets.add(from)
    from.setNoDelay(true)
    from.on('error', () => undefined) // its close follows
    from.on('close', () => {
      sockets.delete(from)
      to.destroy()
    })
    from.pipe(to)
  }
}
