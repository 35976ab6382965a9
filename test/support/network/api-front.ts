import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createServer, type Server } from 'node:tls'
import type { Pem } from '../../../dev/certificates.ts'
import { FaultingFront, type FrontFault } from '../../contract/discovery/faulting-front.ts'
import type { TornDown } from '../processes.ts'

export interface ApiFrontOptions {
  /** URL of the API server */
  readonly target: string
  /** PEM of the API server's authority */
  readonly ca: string
  /** address on which it listens */
  readonly host: string
  /** certificate and key for clients */
  readonly keys: Pem
}

/**
 * An API server as a pod sees it: with TLS, at an address of the network. It can fail in the server's place, and stop.
 */
export class ApiFront {
  readonly #front: FaultingFront
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #host: string
  #port = 0

  private constructor(front: FaultingFront, { host, keys }: ApiFrontOptions) {
    this.#front = front
    this.#host = host
    const { port } = new URL(front.url)
    this.#server = createServer({ cert: keys.certificate, key: keys.key }, (incoming) => {
      const onward = connect(Number(port), '127.0.0.1')
      this.#keep(incoming)
      this.#keep(onward)
      incoming.pipe(onward).pipe(incoming)
      incoming.once('close', () => onward.destroy())
      onward.once('close', () => incoming.destroy())
    })
    this.#server.on('tlsClientError', () => undefined) // the client left meanwhile
  }

  static async start(t: TornDown, options: ApiFrontOptions): Promise<ApiFront> {
    const front = new ApiFront(await FaultingFront.start(t, options), options)
    t.teardown(() => front.leave())
    await front.comeBack()
    return front
  }

  get port(): number {
    return this.#port
  }

  /** number of requests so far */
  get requests(): number {
    return this.#front.requests.length
  }

  /** Makes new requests fail so; undefined: they work again. Watches go on: `cut` ends them. */
  fail(fault: FrontFault | undefined): void {
    this.#front.fault = () => fault
  }

  /** Stops listening, and cuts all connections. */
  leave(): void {
    this.#server.close()
    this.cut()
  }

  async comeBack(): Promise<void> {
    this.#server.listen(this.#port, this.#host)
    await once(this.#server, 'listening')
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** Cuts all connections without a word. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => this.#sockets.delete(socket))
  }
}
