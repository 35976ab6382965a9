import { createHash } from 'node:crypto'
import type { SecureContext } from 'node:tls'
import { type Clock, systemClock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { Agent } from '../directory/directory.ts'
import type { GitalyCoordinates } from '../directory/gitlab/gitaly-coordinates.ts'
import { BranchWatch } from './branch-watch.ts'
import { type GitalyMetrics, noGitalyMetrics } from './gitaly/gitaly-metrics.ts'
import { GitalyRepository } from './gitaly/gitaly-repository.ts'
import { type GitalyRateLimit, GitalyServers } from './gitaly/gitaly-servers.ts'
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
  /** from one look at a repository to the next while followed: upstream's agent.configuration.poll_period, in ms */
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

/** Repositories read from Gitaly where GitLab says that they lie (wire-protocol 1.20, 2.9). */
export function gitalyRepositories(
  components: GitalyRepositoriesComponents,
  givenOptions: GitalyRepositoriesOptions,
): WatchedRepositories<GitalyCoordinates> {
  const options = { ...defaults, ...givenOptions }
  const { addresses, secureContext, metrics = noGitalyMetrics, clock = systemClock, random = Math.random } = components
  const log = components.log.child({ mod_name: 'repositories' })
  const servers = new GitalyServers({ clock, metrics, secureContext }, options)
  const open = (_: string, coordinates: GitalyCoordinates, projectId: bigint): WatchedRepository => {
    const { storageName, relativePath } = coordinates.repository
    const server = () => servers.at(coordinates.address)
    const features = () => addresses.repository(projectId)?.features ?? coordinates.features
    const gitaly = new GitalyRepository(coordinates, { server, features, clock }, options)
    const own = { clock, log: log.child({ storage: storageName, relative_path: relativePath }), random }
    const watch = new BranchWatch({ ...own, look: () => gitaly.head() }, options)
    const stop = async () => {
      gitaly.stop()
      await watch.stop()
    }
    return { watch, file: (...args) => gitaly.file(...args), stop }
  }
  const absence = ({ project }: Agent) => `GitLab has not said yet where the repository of ${project.path} lies`
  return new WatchedRepositories(
    { addresses, keyOf, open, close: () => servers.stop() },
    { maxRepositories: options.maxRepositories, absence },
  )
}

/** The features of today are sent with each call: they make no other repository. Names no secret: it is a hash. */
function keyOf({ features: _, ...coordinates }: GitalyCoordinates): string {
  return createHash('sha256').update(JSON.stringify(coordinates)).digest('hex').slice(0, 32)
}
