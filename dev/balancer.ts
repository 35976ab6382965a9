import { once } from 'node:events'
import { get } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Service } from '../src/lib/service.ts'

export interface BalancedReplica {
  readonly name: string
  /** port of 127.0.0.1 that answers `/readiness` */
  readonly opsPort: number
  /** ports of 127.0.0.1, one for each front */
  readonly ports: readonly number[]
}

export interface BalancerOptions {
  /** ports of 127.0.0.1 on which it listens; 0: a free one */
  readonly fronts: readonly number[]
  readonly replicas: readonly BalancedReplica[]
  /** interval of readiness checks. ms */
  readonly askEveryMs?: number
  /** limit of an answer, after which the replica is not ready. ms */
  readonly askTimeoutMs?: number
}

interface Backend extends BalancedReplica {
  ready: boolean
}

/** as fast as a failed dial shows anyway; a check costs next to nothing */
const askEveryMs = 250
/** the default of a kubelet's probe */
const askTimeoutMs = 1000

/**
 * A plain TCP balancer for one machine: each connection goes to the next ready replica in turn. A replica that refuses
 * is left out at once, until it is ready again. Open connections stay open.
 */
export class Balancer implements Service {
  readonly #options: Required<BalancerOptions>
  readonly #backends: Backend[]
  readonly #servers: Server[] = []
  readonly #sockets = new Set<Socket>()
  readonly #turns: number[]
  #asking: NodeJS.Timeout | undefined

  constructor(options: BalancerOptions) {
    this.#options = { askEveryMs, askTimeoutMs, ...options }
    this.#backends = options.replicas.map((replica) => ({ ...replica, ready: false }))
    this.#turns = options.fronts.map(() => 0)
  }

  /** Ports of the fronts; only after `start`. */
  get ports(): number[] {
    return this.#servers.map((server) => (server.address() as { port: number }).port)
  }

  /** Names of the replicas that get new connections. */
  get ready(): string[] {
    return this.#backends.filter(({ ready }) => ready).map(({ name }) => name)
  }

  /** Resolves once it listens and has checked every replica. */
  async start(): Promise<void> {
    await this.#ask()
    for (const [front, port] of this.#options.fronts.entries()) {
      const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true })
      server.on('connection', (client) => void this.#serve(client, front))
      server.listen(port, '127.0.0.1')
      await once(server, 'listening')
      this.#servers.push(server)
    }
    this.#asking = setInterval(() => void this.#ask(), this.#options.askEveryMs)
  }

  /** Cuts all connections. */
  async stop(): Promise<void> {
    clearInterval(this.#asking)
    const closed = this.#servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve)))
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all(closed)
  }

  /** Adds a replica, which gets connections once it is ready. */
  add(replica: BalancedReplica): void {
    this.#backends.push({ ...replica, ready: false })
  }

  /** Removes a replica: it gets no more connections, and its open ones stay. */
  remove(name: string): void {
    const at = this.#backends.findIndex((backend) => backend.name === name)
    if (at >= 0) this.#backends.splice(at, 1)
  }

  async #ask(): Promise<void> {
    const { askTimeoutMs } = this.#options
    await Promise.all(
      this.#backends.map(async (backend) => {
        backend.ready = await isReady(backend.opsPort, askTimeoutMs)
      }),
    )
  }

  async #serve(client: Socket, front: number): Promise<void> {
    this.#adopt(client)
    const tried = new Set<Backend>()
    for (let backend = this.#next(front, tried); backend; backend = this.#next(front, tried)) {
      tried.add(backend)
      const server = await this.#dial(backend.ports[front] as number)
      if (server && !client.destroyed) {
        // the replica ended with the connection in its queue: the next one goes elsewhere
        server.once('close', () => (backend.ready &&= server.bytesRead > 0))
        return join(client, server)
      }
      server?.destroy()
      if (client.destroyed) return
      backend.ready = false // it refused
    }
    client.resetAndDestroy()
  }

  #next(front: number, tried: ReadonlySet<Backend>): Backend | undefined {
    const candidates = this.#backends.filter((backend) => backend.ready && !tried.has(backend))
    const turn = this.#turns[front] as number
    this.#turns[front] = turn + 1
    return candidates[turn % candidates.length]
  }

  async #dial(port: number): Promise<Socket | undefined> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    this.#adopt(socket)
    return once(socket, 'connect').then(
      () => socket,
      () => undefined,
    )
  }

  #adopt(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined) // close reports it
    socket.once('close', () => this.#sockets.delete(socket))
  }
}

/** Joins both sockets. An end is passed on as an end, a reset as a reset, so that callers see a replica's behaviour. */
function join(client: Socket, server: Socket): void {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    from.pipe(to)
    from.once('close', () => (from.readableEnded ? to.destroySoon() : to.resetAndDestroy()))
  }
}

function isReady(port: number, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const asked = get({ host: '127.0.0.1', port, path: '/readiness', agent: false, signal }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    asked.on('error', () => resolve(false))
  })
}
