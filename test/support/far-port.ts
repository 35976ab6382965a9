import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/**
 * Limit of bytes on their way in one direction of a connection; beyond it a sender waits, as before a router's full
 * buffer.
 */
const maxBytesOnTheWay = 256 * 1024 * 1024

/** A port before another port of this machine, with network delay: each byte comes half a round trip later. */
export class FarPort {
  readonly port: number
  readonly #server: Server
  readonly #sockets: ReadonlySet<Socket>

  private constructor(server: Server, sockets: ReadonlySet<Socket>) {
    this.#server = server
    this.#sockets = sockets
    this.port = (server.address() as AddressInfo).port
  }

  static async start(port: number, roundTripMs: number): Promise<FarPort> {
    const sockets = new Set<Socket>()
    const server = createServer({ noDelay: true }, (near) => {
      const far = connect({ host: '127.0.0.1', port, noDelay: true })
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from)
        from.on('error', () => to.destroy())
        from.once('close', () => sockets.delete(from))
        carry(from, to, roundTripMs / 2)
      }
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new FarPort(server, sockets)
  }

  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}

function carry(from: Socket, to: Socket, delayMs: number): void {
  const queue: { readonly at: number; readonly chunk: Buffer | undefined }[] = []
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const deliver = () => {
    timer = undefined
    for (let next = queue[0]; next && next.at <= performance.now(); next = queue[0]) {
      queue.shift()
      if (!next.chunk) to.end()
      else {
        bytes -= next.chunk.length
        to.write(next.chunk)
      }
    }
    if (from.isPaused() && bytes < maxBytesOnTheWay / 2) from.resume()
    const [next] = queue
    if (next && !to.destroyed) timer = setTimeout(deliver, Math.max(0, next.at - performance.now()))
  }
  const send = (chunk: Buffer | undefined) => {
    queue.push({ at: performance.now() + delayMs, chunk })
    bytes += chunk?.length ?? 0
    if (bytes > maxBytesOnTheWay) from.pause()
    if (!timer) timer = setTimeout(deliver, delayMs)
  }
  from.on('data', send)
  from.on('end', () => send(undefined))
  to.once('close', () => clearTimeout(timer))
}
