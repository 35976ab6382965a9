import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { LocalReplica } from '../../../dev/start/local-replica.ts'

/** A front that sends all viewers to one replica, and to the next one while that does not listen. */
export class ViewersFront {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** the first is the entry */
  #replicas: readonly LocalReplica[]

  private constructor(replicas: readonly LocalReplica[]) {
    this.#replicas = replicas
    this.#server = createServer((client) => void this.#serve(client))
  }

  static async start(replicas: readonly LocalReplica[]): Promise<ViewersFront> {
    const front = new ViewersFront(replicas)
    front.#server.listen(0, '127.0.0.1')
    await once(front.#server, 'listening')
    return front
  }

  /** port of 127.0.0.1 */
  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Replica of the viewers. */
  get entry(): LocalReplica {
    return this.#replicas[0] as LocalReplica
  }

  /** Sends all viewers there from now on; connections to another replica are cut. */
  enter(replica: LocalReplica): void {
    if (replica === this.entry) return
    this.#move(replica)
    this.#cut()
  }

  stop(): void {
    this.#server.close()
    this.#cut()
  }

  async #serve(client: Socket): Promise<void> {
    this.#adopt(client)
    client.pause()
    for (const replica of this.#replicas) {
      const server = await this.#dial(replica)
      if (!server) continue
      this.#move(replica)
      if (client.destroyed) return void server.destroy()
      client.once('close', () => server.destroy())
      server.once('close', () => client.destroy())
      client.pipe(server).pipe(client)
      return
    }
    client.destroy()
  }

  #move(replica: LocalReplica): void {
    this.#replicas = [replica, ...this.#replicas.filter((one) => one !== replica)]
  }

  /** @returns undefined: it refuses */
  #dial({ ports }: LocalReplica): Promise<Socket | undefined> {
    const server = connect(ports.kubernetes, '127.0.0.1')
    this.#adopt(server)
    return once(server, 'connect').then(
      () => server,
      () => undefined,
    )
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #adopt(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.on('error', () => undefined) // close reports it
    socket.once('close', () => this.#sockets.delete(socket))
  }
}
