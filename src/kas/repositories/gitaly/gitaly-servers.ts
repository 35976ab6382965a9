import type { SecureContext } from 'node:tls'
import type { Clock } from '../../../lib/clock.ts'
import type { Service } from '../../../lib/service.ts'
import { RecentlyUsed } from '../recently-used.ts'
import { GitalyCallLimit } from './gitaly-call-limit.ts'
import type { GitalyMetrics } from './gitaly-metrics.ts'
import { GitalyServer, type GitalyServerOptions } from './gitaly-server.ts'

/** Rate at which calls may begin: upstream's gitaly.global_api_rate_limit and gitaly.per_server_api_rate_limit. */
export interface GitalyRateLimit {
  readonly refillPerSecond: number
  readonly bucketSize: number
}

export interface GitalyServersOptions extends Partial<GitalyServerOptions> {
  /** identifies kas to Gitaly */
  readonly userAgent: string
  readonly globalLimit: GitalyRateLimit
  readonly serverLimit: GitalyRateLimit
  /** calls of one queue that wait for their turn at each limit; more are refused */
  readonly maxWaitingCalls?: number
  /** Gitalys with an open connection; the longest unused one makes room */
  readonly maxServers?: number
}

const defaults = {
  connectTimeoutMs: 10_000,
  callTimeoutMs: 30_000, // a cold repository on slow disks takes seconds
  maxWaitingCalls: 20_000, // all agents come at once after a restart
  maxServers: 100, // GitLab has one Gitaly per storage
}

/** The Gitalys that store the repositories, by address. */
export class GitalyServers implements Service {
  readonly #clock: Clock
  readonly #metrics: GitalyMetrics
  readonly #secureContext: () => Promise<SecureContext>
  readonly #options: GitalyServersOptions & typeof defaults
  readonly #globalLimit: GitalyCallLimit
  #context: Promise<SecureContext> | undefined
  readonly #servers: RecentlyUsed<GitalyServer>

  constructor(
    components: { clock: Clock; metrics: GitalyMetrics; secureContext: () => Promise<SecureContext> },
    options: GitalyServersOptions,
  ) {
    this.#clock = components.clock
    this.#metrics = components.metrics
    this.#secureContext = components.secureContext
    this.#options = { ...defaults, ...options }
    this.#globalLimit = this.#limit(undefined, options.globalLimit)
    const ended = (address: string, server: GitalyServer) => this.#end(address, server)
    this.#servers = new RecentlyUsed({ ended }, { max: this.#options.maxServers })
  }

  at(address: string): GitalyServer {
    return this.#servers.at(address, () => this.#open(address))
  }

  async start(): Promise<void> {}

  /** Ends all connections. */
  async stop(): Promise<void> {
    this.#servers.clear()
  }

  #open(address: string): GitalyServer {
    const components = {
      globalLimit: this.#globalLimit,
      limit: this.#limit(address, this.#options.serverLimit),
      clock: this.#clock,
      secureContext: () => this.#keptContext(),
      answered: this.#metrics.answered,
    }
    return new GitalyServer(address, components, this.#options)
  }

  /** Returns the shared TLS context, which takes a while to make. */
  #keptContext(): Promise<SecureContext> {
    this.#context ??= this.#secureContext().catch((error: unknown) => {
      this.#context = undefined
      throw error
    })
    return this.#context
  }

  #limit(address: string | undefined, limit: GitalyRateLimit): GitalyCallLimit {
    this.#metrics.limited(address, limit.refillPerSecond)
    const waited = (allowed: boolean, ms: number) => this.#metrics.waited(address, allowed, ms)
    return new GitalyCallLimit({ clock: this.#clock, waited }, { ...limit, maxWaiting: this.#options.maxWaitingCalls })
  }

  #end(address: string, server: GitalyServer): void {
    this.#metrics.forgotten(address)
    server.stop()
  }
}
