import { KasError } from '../../lib/errors.ts'
import type { Agent } from '../directory/directory.ts'
import type { BranchWatch } from './branch-watch.ts'

/** Tells where the repositories of projects lie. */
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
  /** Ends all that runs, the watch too. */
  stop(): Promise<void>
}

export interface WatchedRepositoriesComponents<Address, Repository extends WatchedRepository> {
  readonly addresses: ProjectAddresses<Address>
  /** Equal for addresses that are read as one. */
  keyOf(address: Address): string
  open(key: string, address: Address, projectId: bigint): Repository
}

export interface WatchedRepositoriesOptions {
  /** repositories at once; the longest unused one makes room */
  readonly maxRepositories: number
  /** why a project without an address cannot be read */
  readonly absence: (agent: Agent) => string
}

/** Somebody who follows an agent's repository, wherever it lies. */
interface Follower {
  readonly projectId: bigint
  readonly listener: () => void
  /** of the repository that is followed now */
  key: string | undefined
  detach: () => void
}

/** Repositories by where they lie: agents of one project share one, and follow it when it moves. */
export class WatchedRepositories<Address, Repository extends WatchedRepository> {
  readonly #components: WatchedRepositoriesComponents<Address, Repository>
  readonly #options: WatchedRepositoriesOptions
  /** by key, longest unused first */
  readonly #repositories = new Map<string, Repository>()
  readonly #ending = new Set<Promise<void>>()
  /** by project */
  readonly #followers = new Map<bigint, Set<Follower>>()
  #detachAddresses: (() => void) | undefined
  #stopped = false

  constructor(components: WatchedRepositoriesComponents<Address, Repository>, options: WatchedRepositoriesOptions) {
    this.#components = components
    this.#options = options
  }

  start(): void {
    this.#detachAddresses = this.#components.addresses.onChange((projectId) => this.#addressesChanged(projectId))
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#detachAddresses?.()
    this.#followers.clear()
    for (const [key, repository] of this.#repositories) this.#end(key, repository)
    await Promise.all(this.#ending)
  }

  /** @throws KasError REPOSITORY_FAILED if the agent's project has none, SHUTTING_DOWN */
  of(agent: Agent): Repository {
    const address = this.#components.addresses.repository(agent.project.id)
    if (address) return this.#at(address, agent.project.id)
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: this.#options.absence(agent) })
  }

  /** Calls `listener` after the branch moved, or the repository did, until the returned function is called. */
  onMove(agent: Agent, listener: () => void): () => void {
    const projectId = agent.project.id
    const follower: Follower = { projectId, listener, key: undefined, detach: () => undefined }
    const followers = this.#followers.get(projectId) ?? new Set()
    this.#followers.set(projectId, followers.add(follower))
    this.#follow(follower)
    return () => {
      followers.delete(follower)
      if (followers.size === 0 && this.#followers.get(projectId) === followers) this.#followers.delete(projectId)
      follower.detach()
    }
  }

  /** Looks at the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  async poke(projectId: bigint): Promise<void> {
    const address = this.#components.addresses.repository(projectId)
    if (address) await this.#repositories.get(this.#components.keyOf(address))?.watch.poke()
  }

  /** Attaches a follower to where its repository lies now; a project without one is followed once it has one. */
  #follow(follower: Follower): void {
    const address = this.#components.addresses.repository(follower.projectId)
    follower.key = address && this.#components.keyOf(address)
    follower.detach = address ? this.#at(address, follower.projectId).watch.onMove(follower.listener) : () => undefined
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

  #at(address: Address, projectId: bigint): Repository {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const key = this.#components.keyOf(address)
    const repository = this.#repositories.get(key) ?? this.#components.open(key, address, projectId)
    this.#repositories.delete(key) // to the end: the most recently used
    this.#repositories.set(key, repository)
    this.#makeRoom()
    return repository
  }

  #makeRoom(): void {
    if (this.#repositories.size <= this.#options.maxRepositories) return
    for (const [key, repository] of this.#repositories) {
      if (repository.watch.inUse) continue
      this.#end(key, repository)
      return
    }
  }

  #end(key: string, repository: Repository): void {
    this.#repositories.delete(key)
    const ended = repository.stop().then(() => void this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}
