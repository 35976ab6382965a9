import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { joinSockets } from './joined-sockets.ts'
import type { TornDown } from './processes.ts'

export interface CuttingFrontOptions {
  /** ports of loopback, used in turn */
  readonly targets: readonly number[]
  /** limit of a connection without traffic, after which it is cut; default: never */
  readonly idleMs?: number
  /** limit of a connection's age, after which it is cut; default: never */
  readonly ageMs?: number
}

export interface Cut {
  readonly why: 'idle' | 'age'
  readonly how: 'FIN' | 'RST'
}

/** A TCP front that cuts connections without a warning, at both ends at once, in turn with FIN and with RST. */
export class CuttingFront {
  readonly cuts: Cut[] = []
  /** ports of clients whose last connection was cut */
  readonly #cutPorts = new Set<number>()
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #options: CuttingFrontOptions
  #turn = 0

  private constructor(options: CuttingFrontOptions) {
    this.#options = options
    this.#server = createServer({ noDelay: true }, (near) => this.#join(near))
  }

  static async start(t: TornDown, options: CuttingFrontOptions): Promise<CuttingFront> {
    const front = new CuttingFront(options)
    front.#server.listen(0, '127.0.0.1')
    t.teardown(() => front.#close())
    await once(front.#server, 'listening')
    return front
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Returns true if the client's last connection was cut. */
  hasCut(clientPort: number | undefined): boolean {
    return clientPort !== undefined && this.#cutPorts.has(clientPort)
  }

  /** Number of cuts of this kind. */
  count(wanted: Partial<Cut>): number {
    return this.cuts.filter(({ why, how }) => why === (wanted.why ?? why) && how === (wanted.how ?? how)).length
  }

  #join(near: Socket): void {
    const { targets, idleMs, ageMs } = this.#options
    const port = near.remotePort as number
    this.#cutPorts.delete(port)
    const far = connect({ port: targets[this.#turn++ % targets.length] as number, host: '127.0.0.1', noDelay: true })
    const cut = (why: Cut['why']) => {
      const how = this.cuts.length % 2 === 0 ? 'RST' : 'FIN'
      this.cuts.push({ why, how })
      this.#cutPorts.add(port)
      for (const socket of [near, far]) how === 'RST' ? socket.resetAndDestroy() : socket.destroy()
    }
    const age = ageMs === undefined ? undefined : setTimeout(() => cut('age'), ageMs)
    const idle = idleMs === undefined ? undefined : setTimeout(() => cut('idle'), idleMs)
    for (const socket of [near, far]) socket.on('data', () => void idle?.refresh())
    near.once('close', () => {
      clearTimeout(age)
      clearTimeout(idle)
    })
    joinSockets(near, far, this.#sockets)
  }

  #close(): void {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
  }
}
