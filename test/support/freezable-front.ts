import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { TornDown } from './processes.ts'

/** A TCP front whose connections can become silent without an end, as those of a node that lost power. */
export class FreezableFront {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** number of the current time: its connections pass bytes, those of earlier times are frozen */
  #time = 0
  /** new connections, which wait; undefined: they pass */
  #waiting: (() => void)[] | undefined

  private constructor(port: number) {
    this.#server = createServer((near) => {
      const join = () => this.#join(near, connect(port, '127.0.0.1'))
      if (this.#waiting) this.#waiting.push(join)
      else join()
    })
  }

  /** @param port - target port of loopback */
  static async start(t: TornDown, port: number): Promise<FreezableFront> {
    const front = new FreezableFront(port)
    front.#server.listen(0, '127.0.0.1')
    t.teardown(() => front.#close())
    await once(front.#server, 'listening')
    return front
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Freezes the current connections: no bytes pass, not even their end. New ones work, or wait for `admit`. */
  freeze({ isClosed = false } = {}): void {
    this.#time++
    if (isClosed) this.#waiting ??= []
  }

  /** Lets new connections pass. */
  admit(): void {
    const waiting = this.#waiting ?? []
    this.#waiting = undefined
    for (const join of waiting) join()
  }

  #join(near: Socket, far: Socket): void {
    const time = this.#time
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from)
      from.setNoDelay(true)
      from.on('error', () => undefined) // its close follows
      from.on('data', (chunk) => void (time === this.#time && to.write(chunk)))
      from.on('close', () => {
        this.#sockets.delete(from)
        if (time === this.#time) to.destroy()
      })
    }
  }

  #close(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}
