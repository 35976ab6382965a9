import { once } from 'node:events'
import { get } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Service } from '../src/lib/service.ts'

export interface BalancedReplica {
  readonly name: string
  /** of 127.0.0.1, where it answers `/readiness` */
  readonly opsPort: number
  /** of 127.0.0.1, one for each front */
  readonly ports: readonly number[]
}

export interface BalancerOptions {
  /** of 127.0.0.1, where it listens; 0: a free one */
  readonly fronts: readonly number[]
  readonly replicas: readonly BalancedReplica[]
  /** from one question about readiness to the next. ms */
  readonly askEveryMs?: number
  /** no answer for so long means not ready. ms */
  readonly askTimeoutMs?: number
}

interface Backend extends BalancedReplica {
  ready: boolean
}

/** as fast as a failed dial is noticed anyway; the question costs next to nothing */
const askEveryMs = 250
/** as a kubelet's probe has it by default */
const askTimeoutMs = 1000

/**
 * A plain TCP balancer for one machine: each connection goes to the next replica in turn among those that say that
 * they are ready. One that refuses is left out at once, until it says so again. What is connected stays connected.
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

  /** Where each front listens; only after `start`. */
  get ports(): number[] {
    return this.#servers.map((server) => (server.address() as { port: number }).port)
  }

  /** Names of the replicas that get new connections. */
  get ready(): string[] {
    return this.#backends.filter(({ ready }) => ready).map(({ name }) => name)
  }

  /** Resolves once it listens and has asked every replica. */
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

  /** Cuts what runs. */
  async stop(): Promise<void> {
    clearInterval(this.#asking)
    const closed = this.#servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve)))
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all(closed)
  }

  /** One replica more; it gets connections once it is ready. */
  add(replica: BalancedReplica): void {
    this.#backends.push({ ...replica, ready: false })
  }

  /** It gets no more connections; those that it has stay. */
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
        // it died with the connection in its queue: the next one goes elsewhere
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
    socket.on('error', () => undefined) // told by close
    socket.once('close', () => this.#sockets.delete(socket))
  }
}

/** An end is passed on as an end, a reset as a reset: callers see through the balancer what a replica did. */
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
