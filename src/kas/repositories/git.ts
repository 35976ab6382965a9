import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import type { Agent } from '../directory/directory.ts'
import { BranchWatch } from './branch-watch.ts'
import { GitMirror } from './git-mirror.ts'
import { ProcessLimit } from './process-limit.ts'
import type { CommitId, Repositories } from './repositories.ts'
import type { RepositoryAddress } from './repository-url.ts'
import { type ProjectAddresses, WatchedRepositories, type WatchedRepository } from './watched-repositories.ts'

export type RepositoryAddresses = ProjectAddresses<RepositoryAddress>

export interface GitRepositoriesComponents {
  readonly addresses: RepositoryAddresses
  readonly log: Logger
  readonly clock?: Clock
  readonly random?: () => number
}

export interface GitRepositoriesOptions {
  /** the mirrors lie here; for one process alone */
  readonly stateDir: string
  /** environment of kas, of which git gets PATH, HOME, proxies and certificates */
  readonly env: Readonly<Record<string, string | undefined>>
  /** from one look at a repository to the next while an agent follows it, in ms */
  readonly pollMs?: number
  /** a newest commit that takes more is refused, in bytes; the disk may hold twice as much for a moment */
  readonly maxRepositoryBytes?: number
  /** git processes at once, over all repositories */
  readonly maxProcesses?: number
  /** git processes that wait for a turn; more are refused */
  readonly maxWaitingProcesses?: number
  /** repositories at once; the longest unused one makes room */
  readonly maxRepositories?: number
  /** a git process that says nothing for so long is ended, in ms */
  readonly silenceTimeoutMs?: number
  /** the longest that one look, fetch included, may take, in ms */
  readonly updateTimeoutMs?: number
  readonly renewAfterFetches?: number
  readonly maxBackoffMs?: number
  readonly sizeCheckMs?: number
  readonly keepReplacedMs?: number
}

const defaults = {
  pollMs: 3000, // "a push is noticed within seconds"; ls-remote costs about 10 ms of a core
  maxRepositoryBytes: 256 << 20,
  maxProcesses: 4,
  maxWaitingProcesses: 10_000,
  maxRepositories: 10_000,
  silenceTimeoutMs: 20_000,
  updateTimeoutMs: 120_000,
  renewAfterFetches: 1000,
  maxBackoffMs: 60_000, // wire-protocol 2.9
  sizeCheckMs: 250,
  keepReplacedMs: 60_000,
}

interface Repository extends WatchedRepository {
  readonly mirror: GitMirror
}

/** Repositories read by git from bare mirrors on the disk; agents of one repository share a mirror and its polls. */
export class GitRepositories implements Repositories, Service {
  readonly #components: GitRepositoriesComponents
  readonly #options: GitRepositoriesOptions & typeof defaults
  readonly #clock: Clock
  readonly #log: Logger
  readonly #limit: ProcessLimit
  readonly #watched: WatchedRepositories<RepositoryAddress, Repository>

  constructor(components: GitRepositoriesComponents, options: GitRepositoriesOptions) {
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#clock = components.clock ?? systemClock
    this.#log = components.log.child({ mod_name: 'repositories' })
    const { maxProcesses, maxWaitingProcesses, maxRepositories } = this.#options
    this.#limit = new ProcessLimit({ maxRunning: maxProcesses, maxWaiting: maxWaitingProcesses })
    this.#watched = new WatchedRepositories(
      { addresses: components.addresses, keyOf, open: (key, address) => this.#open(key, address) },
      { maxRepositories, absence: ({ project }) => `project ${project.path} has no git repository in the directory` },
    )
  }

  async start(): Promise<void> {
    this.#watched.start()
  }

  async stop(): Promise<void> {
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
    return await this.#watched.of(agent).mirror.file(commit, path, maxBytes, signal)
  }

  onMove(agent: Agent, listener: () => void): () => void {
    return this.#watched.onMove(agent, listener)
  }

  /** Looks at the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  async poke(projectId: bigint): Promise<void> {
    await this.#watched.poke(projectId)
  }

  #open(key: string, address: RepositoryAddress): Repository {
    const log = this.#log.child({ mirror: key })
    const components = { address, limit: this.#limit, log, clock: this.#clock }
    const mirror = new GitMirror(components, { ...this.#options, folder: join(this.#options.stateDir, key) })
    const random = this.#components.random ?? Math.random
    const watch = new BranchWatch({ look: () => mirror.update(), clock: this.#clock, log, random }, this.#options)
    const stop = async () => {
      await Promise.all([mirror.stop(), watch.stop()])
      await mirror.stop() // for what the last look left
    }
    return { mirror, watch, stop }
  }
}

/** One mirror for one URL as seen with one set of credentials: nobody reads what another's credentials fetched. */
function keyOf({ url, credentialsFile = '', defaultBranch = '' }: RepositoryAddress): string {
  return createHash('sha256')
    .update(JSON.stringify([url, credentialsFile, defaultBranch]))
    .digest('hex')
    .slice(0, 32)
}
