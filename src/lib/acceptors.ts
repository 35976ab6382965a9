import { once } from 'node:events'
import { type ListenOptions, Server } from 'node:net'

/** Sockets that listen on one address. */
const socketCount = 8

/** Codes of systems on which several sockets cannot listen on one address. */
const unsupported: ReadonlySet<string | undefined> = new Set(['ENOTSUP', 'EOPNOTSUPP', 'EINVAL', 'ENOPROTOOPT'])

/**
 * Listening sockets of a server. libuv accepts one connection of each socket in a turn of the event loop. While turns are
 * long and strangers connect without end, a newcomer would wait behind all of them in the system's queue. The system spreads connections over several sockets on one address (SO_REUSEPORT).
 */
export class Acceptors {
  readonly #server: Server
  readonly #others: Server[] = []

  /** @param server - gets the connections of all sockets as its own */
  constructor(server: Server) {
    this.#server = server
  }

  /** @throws Error if the address cannot be listened on, as when another program has it */
  async listen(options: ListenOptions): Promise<void> {
    if (options.path !== undefined || process.platform !== 'linux') return await listening(this.#server, options)
    if (options.port) await refuseUsed(options)
    try {
      await listening(this.#server, { ...options, reusePort: true })
    } catch (error) {
      if (!unsupported.has((error as NodeJS.ErrnoException).code)) throw error
      return await listening(this.#server, options)
    }
    const { port } = this.#server.address() as { port: number }
    for (let i = 1; i < socketCount; i++) await this.#add({ ...options, port, reusePort: true })
  }

  /** Accepts no more connections. Resolves once those that were accepted have ended. */
  async close(): Promise<void> {
    // `close` of HTTP would destroy idle connections with the data that they still have to send
    const closed = [this.#server, ...this.#others].map((server) => closing(server))
    await Promise.all(closed)
  }

  async #add(options: ListenOptions): Promise<void> {
    const other = new Server(optionsOf(this.#server))
    other.on('connection', (socket) => this.#server.emit('connection', socket))
    this.#others.push(other)
    await listening(other, options)
    other.on('error', (error) => this.#server.emit('error', error))
  }
}

async function listening(server: Server, options: ListenOptions): Promise<void> {
  server.listen(options)
  await once(server, 'listening')
}

function closing(server: Server): Promise<void> {
  return new Promise((resolve) => Server.prototype.close.call(server, () => resolve()))
}

/** Sockets of one user may share an address without an error, so that a second replica would take connections of this one. */
async function refuseUsed(options: ListenOptions): Promise<void> {
  const first = new Server()
  await listening(first, options)
  await closing(first)
}

/** Options of the server's sockets, which node keeps as members. */
function optionsOf(server: Server) {
  const { allowHalfOpen, noDelay, keepAlive, keepAliveInitialDelay, highWaterMark } = server as Server & {
    readonly allowHalfOpen: boolean
    readonly noDelay: boolean
    readonly keepAlive: boolean
    /** s */
    readonly keepAliveInitialDelay: number
    readonly highWaterMark: number
  }
  return {
    allowHalfOpen,
    noDelay,
    keepAlive,
    keepAliveInitialDelay: keepAliveInitialDelay * 1000,
    highWaterMark,
  }
}
