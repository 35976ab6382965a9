import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { joinSockets } from '../support/joined-sockets.ts'
import type { TornDown } from '../support/processes.ts'

/** A TCP relay that counts its target's bytes. */
export class CountingRelay {
  /** bytes from the target to clients */
  bytes = 0
  connections = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #target: number
  #port = 0

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer({ noDelay: true }, (near) => this.#join(near))
  }

  /** @param target - port of loopback */
  static async start(t: TornDown, target: number): Promise<CountingRelay> {
    const relay = new CountingRelay(target)
    relay.#server.listen(0, '127.0.0.1')
    t.teardown(() => relay.stop())
    await once(relay.#server, 'listening')
    relay.#port = (relay.#server.address() as AddressInfo).port
    return relay
  }

  get port(): number {
    return this.#port
  }

  /** Refuses connections from now on, and cuts the open ones. */
  stop(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Accepts connections again after `stop`, on the same port. */
  async resume(): Promise<void> {
    this.#server.listen(this.#port, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  #join(near: Socket): void {
    const far = connect({ port: this.#target, host: '127.0.0.1', noDelay: true })
    this.connections++
    joinSockets(near, far, this.#sockets)
    far.on('data', (chunk: Buffer) => {
      this.bytes += chunk.length
    })
  }
}
