import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { type Clock, systemClock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import type { Logger } from '../../lib/log.ts'
import type { Service } from '../../lib/service.ts'
import type { Agent } from '../directory/directory.ts'
import { BranchWatch } from './branch-watch.ts'
import { GitMirror } from './git-mirror.ts'
import { ProcessLimit } from './process-limit.ts'
import type { CommitId, Repositories } from './repositories.ts'
import type { RepositoryAddress } from './repository-url.ts'

/** Tells where the repositories of projects lie. */
export interface RepositoryAddresses {
  /** `undefined`: the project has none */
  repository(projectId: bigint): RepositoryAddress | undefined
  /** Calls `listener` after an answer may have changed, until the returned function is called. */
  onChange(listener: () => void): () => void
}

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

interface Repository {
  readonly mirror: GitMirror
  readonly watch: BranchWatch
}

/** Somebody who follows an agent's repository, wherever it lies. */
interface Follower {
  readonly agent: Agent
  readonly listener: () => void
  /** of the repository that is followed now */
  key: string | undefined
  detach: () => void
}

/** Repositories read by git from bare mirrors on the disk; agents of one repository share a mirror and its polls. */
export class GitRepositories implements Repositories, Service {
  readonly #components: GitRepositoriesComponents
  readonly #options: GitRepositoriesOptions & typeof defaults
  readonly #clock: Clock
  readonly #log: Logger
  readonly #limit: ProcessLimit
  /** by `keyOf`, longest unused first */
  readonly #repositories = new Map<string, Repository>()
  /** those that left the map and still end */
  readonly #ending = new Set<Promise<void>>()
  readonly #followers = new Set<Follower>()
  #detachAddresses: (() => void) | undefined
  #stopped = false

  constructor(components: GitRepositoriesComponents, options: GitRepositoriesOptions) {
    this.#components = components
    this.#options = { ...defaults, ...options }
    this.#clock = components.clock ?? systemClock
    this.#log = components.log.child({ mod_name: 'repositories' })
    this.#limit = new ProcessLimit({
      maxRunning: this.#options.maxProcesses,
      maxWaiting: this.#options.maxWaitingProcesses,
    })
  }

  async start(): Promise<void> {
    this.#detachAddresses = this.#components.addresses.onChange(() => this.#addressesChanged())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#detachAddresses?.()
    this.#followers.clear()
    for (const [key, repository] of this.#repositories) this.#end(key, repository)
    await Promise.all(this.#ending)
  }

  async head(agent: Agent, signal: AbortSignal): Promise<CommitId | undefined> {
    return await this.#of(agent).watch.head(signal)
  }

  async file(
    agent: Agent,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    return await this.#of(agent).mirror.file(commit, path, maxBytes, signal)
  }

  onMove(agent: Agent, listener: () => void): () => void {
    const follower: Follower = { agent, listener, key: undefined, detach: () => undefined }
    this.#followers.add(follower)
    this.#follow(follower)
    return () => {
      this.#followers.delete(follower)
      follower.detach()
    }
  }

  /** Looks at the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  async poke(projectId: bigint): Promise<void> {
    const address = this.#components.addresses.repository(projectId)
    if (address) await this.#repositories.get(keyOf(address))?.watch.poke()
  }

  /** Attaches a follower to where its repository lies now; a project without one is followed once it has one. */
  #follow(follower: Follower): void {
    const address = this.#components.addresses.repository(follower.agent.project.id)
    follower.key = address && keyOf(address)
    follower.detach = address ? this.#at(address).watch.onMove(follower.listener) : () => undefined
  }

  #addressesChanged(): void {
    for (const follower of this.#followers) {
      const address = this.#components.addresses.repository(follower.agent.project.id)
      if (follower.key === (address && keyOf(address))) continue
      follower.detach()
      this.#follow(follower)
      follower.listener()
    }
  }

  #of(agent: Agent): Repository {
    const address = this.#components.addresses.repository(agent.project.id)
    if (address) return this.#at(address)
    const detail = `project ${agent.project.path} has no git repository in the directory`
    throw new KasError({ code: 'REPOSITORY_FAILED', detail })
  }

  #at(address: RepositoryAddress): Repository {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const key = keyOf(address)
    const repository = this.#repositories.get(key) ?? this.#open(key, address)
    this.#repositories.delete(key) // to the end: the most recently used
    this.#repositories.set(key, repository)
    this.#makeRoom()
    return repository
  }

  #open(key: string, address: RepositoryAddress): Repository {
    const log = this.#log.child({ mirror: key })
    const components = { address, limit: this.#limit, log, clock: this.#clock }
    const mirror = new GitMirror(components, { ...this.#options, folder: join(this.#options.stateDir, key) })
    const random = this.#components.random ?? Math.random
    const watch = new BranchWatch({ look: () => mirror.update(), clock: this.#clock, log, random }, this.#options)
    return { mirror, watch }
  }

  #makeRoom(): void {
    if (this.#repositories.size <= this.#options.maxRepositories) return
    for (const [key, repository] of this.#repositories) {
      if (repository.watch.inUse) continue
      this.#end(key, repository)
      return
    }
  }

  #end(key: string, { mirror, watch }: Repository): void {
    this.#repositories.delete(key)
    const ended = Promise.all([mirror.stop(), watch.stop()])
      .then(() => mirror.stop()) // for what the last look left
      .then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}

/** One mirror for one URL as seen with one set of credentials: nobody reads what another's credentials fetched. */
function keyOf({ url, credentialsFile = '', defaultBranch = '' }: RepositoryAddress): string {
  return createHash('sha256')
    .update(JSON.stringify([url, credentialsFile, defaultBranch]))
    .digest('hex')
    .slice(0, 32)
}
