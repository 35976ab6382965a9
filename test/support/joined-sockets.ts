import type { Socket } from 'node:net'

/** Passes bytes in both directions, and ends both sockets at the end of one. `sockets` contains them until then. */
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
