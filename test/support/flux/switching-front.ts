import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { joinSockets } from '../joined-sockets.ts'
import type { TornDown } from '../processes.ts'

/** A TCP front of several servers: connects each new client to the next open one, and can cut all connections. */
export class SwitchingFront {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #ports: () => readonly number[]
  #turn = 0
  /** connections so far */
  count = 0

  private constructor(ports: () => readonly number[]) {
    this.#ports = ports
    this.#server = createServer((near) => this.#join(near))
  }

  /** @param ports - ports of loopback, read at each connection */
  static async start(t: TornDown, ports: () => readonly number[]): Promise<SwitchingFront> {
    const front = new SwitchingFront(ports)
    front.#server.listen(0, '127.0.0.1')
    t.teardown(() => {
      front.cut()
      front.#server.close()
    })
    await once(front.#server, 'listening')
    return front
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Ends all connections, at once. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  #join(near: Socket): void {
    const ports = this.#ports()
    const port = ports[this.#turn++ % ports.length]
    if (port === undefined) return void near.destroy()
    this.count += 1
    joinSockets(near, connect(port, '127.0.0.1'), this.#sockets)
  }
}
