import { createHash } from 'node:crypto'
import type { SecureContext } from 'node:tls'
import { type Clock, systemClock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import { linkedController } from '../../lib/signals.ts'
import type { Agent } from '../directory/directory.ts'
import type { GitalyCoordinates } from '../directory/gitlab/gitaly-coordinates.ts'
import { BranchWatch } from './branch-watch.ts'
import { type GitalyMetrics, noGitalyMetrics } from './gitaly/gitaly-metrics.ts'
import { GitalyRepository } from './gitaly/gitaly-repository.ts'
import { type GitalyRateLimit, GitalyServers } from './gitaly/gitaly-servers.ts'
import type { CommitId, Repositories } from './repositories.ts'
import { type ProjectAddresses, WatchedRepositories, type WatchedRepository } from './watched-repositories.ts'

export interface GitalyRepositoriesComponents {
  /** what GitLab says with each agent's token */
  readonly addresses: ProjectAddresses<GitalyCoordinates>
  /** whom `tls://` trusts; asked once it is needed */
  readonly secureContext: () => Promise<SecureContext>
  readonly log: Logger
  readonly metrics?: GitalyMetrics
  readonly clock?: Clock
  /** 0 up to 1 */
  readonly random?: () => number
}

export interface GitalyRepositoriesOptions {
  /** from one look at a repository to the next while an agent follows it: upstream's agent.configuration.poll_period, in ms */
  readonly pollMs: number
  /** upstream's gitaly.global_api_rate_limit and gitaly.per_server_api_rate_limit */
  readonly globalLimit: GitalyRateLimit
  readonly serverLimit: GitalyRateLimit
  /** tells Gitaly who calls */
  readonly userAgent: string
  /** between looks that fail, in ms */
  readonly minBackoffMs?: number
  readonly maxBackoffMs?: number
  readonly connectTimeoutMs?: number
  /** of a call, from its turn to the end of its answer, in ms */
  readonly callTimeoutMs?: number
  /** repositories at once; the longest unused one makes room */
  readonly maxRepositories?: number
  readonly maxServers?: number
  readonly maxWaitingCalls?: number
  readonly maxRefsBytes?: number
  readonly maxReadOnBytes?: number
}

const defaults = {
  minBackoffMs: 10_000, // wire-protocol 2.9
  maxBackoffMs: 60_000, // wire-protocol 2.9
  connectTimeoutMs: 10_000,
  callTimeoutMs: 30_000, // a cold repository on slow disks takes seconds
  maxRepositories: 10_000,
  maxServers: 100, // GitLab has one a storage
  maxWaitingCalls: 20_000, // all agents come at once after a restart
  maxRefsBytes: 64 << 20,
  maxReadOnBytes: 4 << 20,
}

interface Repository extends WatchedRepository {
  readonly gitaly: GitalyRepository
}

/** Repositories read from Gitaly where GitLab says that they lie (wire-protocol 1.20, 2.9). */
export class GitalyRepositories implements Repositories, Service {
  readonly #components: GitalyRepositoriesComponents
  readonly #options: GitalyRepositoriesOptions & typeof defaults
  readonly #clock: Clock
  readonly #log: Logger
  readonly #servers: GitalyServers
  readonly #watched: WatchedRepositories<GitalyCoordinates, Repository>
  readonly #stopped = new AbortController()

  constructor(components: GitalyRepositoriesComponents, options: GitalyRepositoriesOptions) {
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#clock = components.clock ?? systemClock
    this.#log = components.log.child({ mod_name: 'repositories' })
    const { metrics = noGitalyMetrics, secureContext } = components
    this.#servers = new GitalyServers({ clock: this.#clock, metrics, secureContext }, this.#options)
    this.#watched = new WatchedRepositories(
      { addresses: components.addresses, keyOf, open: (_, address, projectId) => this.#open(address, projectId) },
      {
        maxRepositories: this.#options.maxRepositories,
        absence: ({ project }) => `GitLab has not said yet where the repository of ${project.path} lies`,
      },
    )
  }

  async start(): Promise<void> {
    this.#watched.start()
  }

  async stop(): Promise<void> {
    this.#stopped.abort(new KasError({ code: 'SHUTTING_DOWN' }))
    this.#servers.stop()
    await this.#watched.stop()
  }

  async head(agent: Agent, signal: AbortSignal): Promise<CommitId | undefined> {
    return await this.#watched.of(agent).watch.head(signal)
  }

  async file(
    agent: Agent,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    const { gitaly } = this.#watched.of(agent)
    const controller = linkedController(this.#stopped.signal, signal)
    try {
      return await gitaly.file(commit, path, maxBytes, controller.signal)
    } finally {
      controller.dispose()
    }
  }

  onMove(agent: Agent, listener: () => void): () => void {
    return this.#watched.onMove(agent, listener)
  }

  /** Looks at the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  async poke(projectId: bigint): Promise<void> {
    await this.#watched.poke(projectId)
  }

  #open(coordinates: GitalyCoordinates, projectId: bigint): Repository {
    const clock = this.#clock
    const features = () => this.#components.addresses.repository(projectId)?.features ?? coordinates.features
    const { storageName, relativePath } = coordinates.repository
    const log = this.#log.child({ storage: storageName, relative_path: relativePath })
    const server = () => this.#servers.at(coordinates.address)
    const gitaly = new GitalyRepository(coordinates, { server, features, clock }, this.#options)
    const ended = linkedController(this.#stopped.signal)
    const look = () => gitaly.head(ended.signal)
    const random = this.#components.random ?? Math.random
    const watch = new BranchWatch({ look, clock, log, random }, this.#options)
    const stop = async () => {
      ended.abort(new KasError({ code: 'SHUTTING_DOWN' }))
      ended.dispose()
      await watch.stop()
    }
    return { gitaly, watch, stop }
  }
}

/** The features of today are sent with each call: they make no other repository. Names no secret: it is a hash. */
function keyOf({ features: _, ...coordinates }: GitalyCoordinates): string {
  return createHash('sha256').update(JSON.stringify(coordinates)).digest('hex').slice(0, 32)
}
