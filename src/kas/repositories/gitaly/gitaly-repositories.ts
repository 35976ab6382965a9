import { createHash } from 'node:crypto'
import type { AgentId } from '../../../call/call.ts'
import { type Clock, systemClock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import type { Logger } from '../../../lib/log.ts'
import { BranchWatch } from '../branch-watch.ts'
import type { Reading } from '../repositories.ts'
import {
  type FollowedBranch,
  type ProjectAddresses,
  WatchedRepositories,
  type WatchedRepositoriesComponents,
} from '../watched-repositories.ts'
import type { GitalyCoordinates } from './gitaly-coordinates.ts'
import { GitalyRepository, type GitalyRepositoryOptions } from './gitaly-repository.ts'
import type { GitalyServers } from './gitaly-servers.ts'

export interface GitalyRepositoriesOptions extends GitalyRepositoryOptions {
  /** from one poll of a followed repository to the next, in ms: upstream's agent.configuration.poll_period */
  readonly pollMs: number
  /** from the first failed poll to the next, in ms */
  readonly minBackoffMs?: number
  /** the longest pause after failed polls, in ms */
  readonly maxBackoffMs?: number
  /** open repositories; the longest unused one makes room */
  readonly maxRepositories?: number
}

/** bound of agents' files and of listings of their folders, in bytes, over all repositories */
const maxKeptBytes = 64 << 20

const defaults = {
  minBackoffMs: 10_000, // doc/reference/tunnel-protocol.md 2.9
  maxBackoffMs: 60_000, // doc/reference/tunnel-protocol.md 2.9
  maxRepositories: 10_000,
}

/** Repositories in Gitaly, at the location that GitLab names (doc/reference/tunnel-protocol.md 1.20, 2.9). */
export function gitalyRepositories(
  components: {
    /** the location that GitLab returns with each agent's token */
    readonly addresses: ProjectAddresses<GitalyCoordinates>
    readonly servers: GitalyServers
    /** true if this replica polls for an agent; absent: each does */
    readonly leads?: { leads(agentId: AgentId): boolean }
    readonly log: Logger
    readonly clock?: Clock
    /** from 0 up to 1 */
    readonly random?: () => number
  },
  givenOptions: GitalyRepositoriesOptions,
): WatchedRepositories<GitalyCoordinates> {
  const options = { ...defaults, ...givenOptions }
  const { addresses, servers, leads, clock = systemClock, random = Math.random } = components
  const log = components.log.child({ mod_name: 'repositories' })
  const kept = new Counter({ max: maxKeptBytes })
  const open: WatchedRepositoriesComponents<GitalyCoordinates>['open'] = (_, coordinates, opened) => {
    const { projectId, ref, watched } = opened
    const { storageName, relativePath } = coordinates.repository
    const server = () => servers.at(coordinates.address)
    const features = () => addresses.repository(projectId)?.features ?? coordinates.features
    const gitaly = new GitalyRepository(coordinates, { server, features, clock, kept }, { ...options, ref })
    const own = { clock, log: log.child({ storage: storageName, relative_path: relativePath }), random }
    const watch = new BranchWatch(
      {
        ...own,
        ...watched,
        poll: (isNotified) => gitaly.head(isNotified ? 'pushes' : 'polls'),
        branch: ref === undefined ? () => gitaly.branch : undefined,
        hurry: (isNotified) => gitaly.hurry(isNotified ? 'pushes' : 'arrivals'),
      },
      options,
    )
    const stop = async () => {
      gitaly.stop()
      await watch.stop()
    }
    return { watch, tree: gitaly.tree, file: (...args) => gitaly.file(...args), stop }
  }
  const polls = leads && (({ followers }: FollowedBranch) => [...followers].some(({ of }) => leads.leads(of.id)))
  const absence = ({ project }: Reading) => `GitLab has not said yet where the repository of ${project.path} lies`
  return new WatchedRepositories(
    { addresses, keyOf, open, polls, clock },
    { maxRepositories: options.maxRepositories, pollMs: options.pollMs, absence },
  )
}

/**
 * Lists full paths of the files below a folder of the repository at the given coordinates, in git's order. Throws
 * KasError REPOSITORY_FAILED, or the signal's reason.
 */
export function gitalyFiles({ servers, clock }: { readonly servers: GitalyServers; readonly clock: Clock }) {
  return (coordinates: GitalyCoordinates, folder: string, signal: AbortSignal): Promise<readonly string[]> => {
    const server = () => servers.at(coordinates.address)
    const kept = new Counter({ max: 0 }) // nothing is read twice
    const repository = new GitalyRepository(coordinates, { server, features: () => coordinates.features, clock, kept })
    return repository.files(folder, signal)
  }
}

/**
 * Returns the key of a repository. Features do not count: each call sends the current ones. The hash reveals no secret.
 */
function keyOf({ features: _, ...coordinates }: GitalyCoordinates, ref?: string): string {
  return createHash('sha256')
    .update(JSON.stringify([coordinates, ref]))
    .digest('hex')
    .slice(0, 32)
}
