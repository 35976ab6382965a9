import type { AgentId } from '../../call/call.ts'
import { KasError } from '../../lib/errors.ts'
import type { Service } from '../../lib/service.ts'
import type { Agent } from '../agent.ts'
import type { BranchWatch, BranchWatchComponents } from './branch-watch.ts'
import { RecentlyUsed } from './recently-used.ts'
import type { CommitId, Repositories } from './repositories.ts'

/** Where the repositories of projects lie. */
export interface ProjectAddresses<Address> {
  /** `undefined`: the project has none */
  repository(projectId: bigint): Address | undefined
  /**
   * Calls `listener` after an answer may have changed, that of one project or those of all, until the returned
   * function is called.
   */
  onChange(listener: (projectId?: bigint) => void): () => void
}

/** One repository that is read, and whose branch is watched. */
export interface WatchedRepository {
  readonly watch: BranchWatch
  /** As `Repositories.file`. */
  file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined>
  /** Ends all that runs, the watch too. */
  stop(): Promise<void>
}

export interface WatchedRepositoriesComponents<Address> {
  readonly addresses: ProjectAddresses<Address>
  /** Equal for addresses that are read as one. */
  keyOf(address: Address): string
  /** @param watched - for its `BranchWatch` */
  open(key: string, address: Address, projectId: bigint, watched: Watched): WatchedRepository
  /** whether this replica polls for an agent; absent: each does */
  readonly leads?: { leads(agentId: AgentId): boolean } | undefined
}

type Watched = Pick<BranchWatchComponents, 'polls' | 'onFound'>

export interface WatchedRepositoriesOptions {
  /** repositories at once; the longest unused one makes room */
  readonly maxRepositories: number
  /** why a project without an address cannot be read */
  readonly absence: (agent: Agent) => string
}

/** Somebody who follows an agent's repository, wherever it lies. */
interface Follower {
  readonly agentId: AgentId
  readonly projectId: bigint
  readonly listener: () => void
  /** of the repository that is followed now */
  key: string | undefined
  detach: () => void
}

/** A repository with the reads that run: one that is read does not make room. */
class Opened {
  readonly repository: WatchedRepository
  #reads = 0

  constructor(repository: WatchedRepository) {
    this.repository = repository
  }

  get inUse(): boolean {
    return this.#reads > 0 || this.repository.watch.inUse
  }

  async file(...args: Parameters<WatchedRepository['file']>): Promise<Uint8Array | undefined> {
    this.#reads += 1
    try {
      return await this.repository.file(...args)
    } finally {
      this.#reads -= 1
    }
  }
}

/** Repositories by where they lie: agents of one project share one, and follow it when it moves. */
export class WatchedRepositories<Address> implements Repositories, Service {
  readonly #components: WatchedRepositoriesComponents<Address>
  readonly #options: WatchedRepositoriesOptions
  readonly #opened: RecentlyUsed<Opened>
  readonly #ending = new Set<Promise<void>>()
  /** by project */
  readonly #followers = new Map<bigint, Set<Follower>>()
  readonly #foundListeners = new Set<(projectId: bigint) => void>()
  #detachAddresses: (() => void) | undefined
  #stopped = false

  constructor(components: WatchedRepositoriesComponents<Address>, options: WatchedRepositoriesOptions) {
    this.#components = components
    this.#options = options
    const ended = (_: string, { repository }: Opened) => this.#end(repository)
    this.#opened = new RecentlyUsed({ ended }, { max: options.maxRepositories })
  }

  async start(): Promise<void> {
    this.#detachAddresses = this.#components.addresses.onChange((projectId) => this.#addressesChanged(projectId))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#detachAddresses?.()
    this.#followers.clear()
    this.#opened.clear()
    await Promise.all(this.#ending)
  }

  async head(agent: Agent, signal: AbortSignal): Promise<CommitId | undefined> {
    return await this.#of(agent).repository.watch.head(signal)
  }

  seenAt(agent: Agent): number | undefined {
    return this.#of(agent).repository.watch.seenAt
  }

  async file(
    agent: Agent,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    return await this.#of(agent).file(commit, path, maxBytes, signal)
  }

  /** Calls `listener` after the branch moved, or the repository did, until the returned function is called. */
  onMove(agent: Agent, listener: () => void): () => void {
    const projectId = agent.project.id
    const follower: Follower = { agentId: agent.id, projectId, listener, key: undefined, detach: () => undefined }
    const followers = this.#followers.get(projectId) ?? new Set()
    this.#followers.set(projectId, followers.add(follower))
    this.#follow(follower)
    return () => {
      followers.delete(follower)
      if (followers.size === 0 && this.#followers.get(projectId) === followers) this.#followers.delete(projectId)
      follower.detach()
    }
  }

  /**
   * Calls `listener` after a poll without a notice found that the branch of a project moved, until the returned function
   * is called: replicas that do not poll are to be notified.
   */
  onFound(listener: (projectId: bigint) => void): () => void {
    const own = (projectId: bigint) => listener(projectId)
    this.#foundListeners.add(own)
    return () => this.#foundListeners.delete(own)
  }

  /** Polls the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  async poke(projectId: bigint): Promise<void> {
    await this.#watch(projectId)?.poke()
  }

  async refresh(projectId: bigint): Promise<void> {
    await this.#watch(projectId)?.poke(false)
  }

  /** If somebody reads it. */
  #watch(projectId: bigint): BranchWatch | undefined {
    const address = this.#components.addresses.repository(projectId)
    return address && this.#opened.peek(this.#components.keyOf(address))?.repository.watch
  }

  /** Attaches a follower to where its repository lies now; a project without one is followed once it has one. */
  #follow(follower: Follower): void {
    const address = this.#components.addresses.repository(follower.projectId)
    follower.key = address && this.#components.keyOf(address)
    const watch = address && this.#at(address, follower.projectId).repository.watch
    follower.detach = watch ? watch.onMove(follower.listener) : () => undefined
  }

  #addressesChanged(projectId?: bigint): void {
    const changed = projectId === undefined ? [...this.#followers.values()] : [this.#followers.get(projectId) ?? []]
    for (const followers of changed) for (const follower of followers) this.#followAnew(follower)
  }

  #followAnew(follower: Follower): void {
    const address = this.#components.addresses.repository(follower.projectId)
    if (follower.key === (address && this.#components.keyOf(address))) return
    follower.detach()
    this.#follow(follower)
    follower.listener()
  }

  /** @throws KasError REPOSITORY_FAILED if the agent's project has none, SHUTTING_DOWN */
  #of(agent: Agent): Opened {
    const address = this.#components.addresses.repository(agent.project.id)
    if (address) return this.#at(address, agent.project.id)
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: this.#options.absence(agent) })
  }

  #at(address: Address, projectId: bigint): Opened {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const key = this.#components.keyOf(address)
    return this.#opened.at(
      key,
      () => new Opened(this.#components.open(key, address, projectId, this.#watched(projectId))),
    )
  }

  #watched(projectId: bigint): Watched {
    const { leads } = this.#components
    const polls = () => [...(this.#followers.get(projectId) ?? [])].some(({ agentId }) => leads?.leads(agentId))
    const onFound = () => {
      for (const listener of this.#foundListeners) listener(projectId)
    }
    return { onFound, polls: leads && polls }
  }

  #end(repository: WatchedRepository): void {
    const ended = repository.stop().then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}
