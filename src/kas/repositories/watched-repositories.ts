import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { Listeners } from '../../lib/listeners.ts'
import type { Service } from '../../lib/service.ts'
import type { BranchWatch } from './branch-watch.ts'
import { type Follower, type OpenedFor, OpenedRepository, type WatchedRepository } from './opened-repository.ts'
import { RecentlyUsed } from './recently-used.ts'
import type { CommitId, Following, Polled, Reading, Repositories } from './repositories.ts'
import type { BranchHere } from './shared-polls.ts'
import type { Tree, TreeFiles, Trees } from './tree.ts'

/** Addresses of the projects' repositories. */
export interface ProjectAddresses<Address> {
  /** `undefined`: the project has none */
  repository(projectId: bigint): Address | undefined
  /**
   * Calls `listener` after the address of one project or of all projects may have changed, until the returned function
   * is called.
   */
  onChange(listener: (projectId?: bigint) => void): () => void
}

export interface WatchedRepositoriesComponents<Address> {
  readonly addresses: ProjectAddresses<Address>
  /** Returns equal keys for addresses and refs that share one mirror and its polls. */
  keyOf(address: Address, ref: string | undefined): string
  open(key: string, address: Address, opened: OpenedFor): WatchedRepository
  /** true if this replica polls the branch now; absent: each replica does */
  readonly polls?: ((branch: FollowedBranch) => boolean) | undefined
  readonly clock: Clock
}

/** A branch, or another ref, that is followed. */
export interface FollowedBranch {
  /** key of the branch's repository, by which replicas are ranked */
  readonly repositoryKey: string
  readonly key: string
  readonly followers: Iterable<Follower>
  /** this replica itself follows the branch, not only on behalf of a peer */
  readonly isFollowedHere: boolean
}

export interface WatchedRepositoriesOptions {
  /** open repositories; the longest unused one makes room */
  readonly maxRepositories: number
  /** from one poll of a repository to the next if a follower sets none, in ms; absent: `open` knows */
  readonly pollMs?: number
  /** returns the reason for which a project without an address cannot be read */
  readonly absence: (of: Reading) => string
}

/** Time from the last follower of a ref to its end, in ms: after a stream with one round follows the next stream. */
const keepUnfollowedMs = 30_000

/** Repositories by address: agents of one project share one. A follower moves along when the address changes. */
export class WatchedRepositories<Address> implements Repositories, Trees, Service {
  readonly #components: WatchedRepositoriesComponents<Address>
  readonly #options: WatchedRepositoriesOptions
  readonly #opened: RecentlyUsed<OpenedRepository>
  readonly #ending = new Set<Promise<void>>()
  /** followers, by project */
  readonly #followers = new Map<bigint, Set<Follower>>()
  /**
   * refs whose last follower left a moment ago, by project: such a follower may have got the answer that its ref is
   * missing
   */
  readonly #leftRefs = new Map<bigint, Set<string>>()
  readonly #foundListeners = new Listeners<bigint>()
  readonly #followedListeners = new Listeners()
  #detachAddresses: (() => void) | undefined
  #stopped = false

  constructor(components: WatchedRepositoriesComponents<Address>, options: WatchedRepositoriesOptions) {
    this.#components = components
    this.#options = options
    const ended = (_: string, opened: OpenedRepository) => this.#end(opened)
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

  async head(of: Reading, signal: AbortSignal): Promise<CommitId | undefined> {
    return await this.#of(of).repository.watch.head(signal)
  }

  hurry(of: Reading): void {
    const address = this.#components.addresses.repository(of.project.id)
    if (address) this.#opened.peek(this.#components.keyOf(address, of.ref))?.repository.watch.hurry()
  }

  seenAt(of: Reading): number | undefined {
    return this.#of(of).repository.watch.seenAt
  }

  lastPoll(of: Reading): Polled | undefined {
    const address = this.#components.addresses.repository(of.project.id)
    const watch = address && this.#opened.peek(this.#components.keyOf(address, of.ref))?.repository.watch
    if (watch?.seenAt === undefined) return undefined
    const { commit, branch, seenAt: at, readAt } = watch
    return { commit, branch, at, readAt }
  }

  async file(
    of: Reading,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    return await this.#of(of).read((repository) => repository.file(commit, path, maxBytes, signal))
  }

  async files(of: Reading, ...args: Parameters<Tree['files']>): Promise<TreeFiles> {
    return await this.#of(of).read(({ tree }) => tree.files(...args))
  }

  async mayHave(of: Reading, ...args: Parameters<Tree['mayHave']>): Promise<boolean> {
    return await this.#of(of).read(({ tree }) => tree.mayHave(...args))
  }

  async contains(of: Reading, ...args: Parameters<Tree['contains']>): Promise<boolean> {
    return await this.#of(of).read(({ tree }) => tree.contains(...args))
  }

  async blobs(of: Reading, ...args: Parameters<Tree['blobs']>): Promise<readonly Uint8Array[]> {
    return await this.#of(of).read(({ tree }) => tree.blobs(...args))
  }

  /** Calls `listener` after the branch or the repository's address moved, until the returned function is called. */
  onMove(of: Reading, listener: () => void, following: Following = {}): () => void {
    const projectId = of.project.id
    const follower: Follower = { of, following, listener, key: undefined, detach: () => undefined }
    const followers = this.#followers.get(projectId) ?? new Set()
    this.#followers.set(projectId, followers.add(follower))
    this.#follow(follower)
    return () => {
      followers.delete(follower)
      if (followers.size === 0 && this.#followers.get(projectId) === followers) this.#followers.delete(projectId)
      follower.detach()
      this.#unfollowed(follower)
      this.#release(follower)
    }
  }

  /**
   * Calls `listener` after a poll without a notice found that a project's branch moved, until the returned function is
   * called. Replicas that do not poll need a notice.
   */
  onFound(listener: (projectId: bigint) => void): () => void {
    return this.#foundListeners.add(listener)
  }

  /** Lists each branch that this replica follows itself, once; not those that it follows for a peer alone. */
  followed(): BranchHere[] {
    const found = new Map<string, BranchHere>()
    for (const followers of this.#followers.values()) {
      for (const { of, key, following } of followers) {
        if (key === undefined || following.isForPeer || found.has(key)) continue
        const branch = this.branch(of)
        if (branch) found.set(key, branch)
      }
    }
    return [...found.values()]
  }

  /** Calls `listener` after this replica follows another branch, until the returned function is called. */
  onFollowed(listener: () => void): () => void {
    return this.#followedListeners.add(listener)
  }

  /** Returns a branch as this replica knows it; undefined: the project has no repository. */
  branch(of: Reading): BranchHere | undefined {
    const { addresses, keyOf } = this.#components
    const address = addresses.repository(of.project.id)
    if (!address) return undefined
    const key = keyOf(address, of.ref)
    const watch = this.#opened.peek(key)?.repository.watch
    const { commit, readAt, isFailing = false } = watch ?? {}
    return { repositoryKey: keyOf(address, undefined), key, of, commit, readAt, isFailing }
  }

  /** Records that a peer could read the project's repository at this time, by the clock. */
  peerRead(of: Reading, at: number): void {
    const address = this.#components.addresses.repository(of.project.id)
    if (address) this.#opened.peek(this.#components.keyOf(address, of.ref))?.repository.watch.peerRead(at)
  }

  /** True if this replica follows or polls a ref of the project's repository, also for a peer. */
  isFollowed(projectId: bigint): boolean {
    return this.#watches(projectId).some((watch) => watch.inUse)
  }

  /** Polls the repository of this project now, after a notice of a push; does nothing if nobody reads it. */
  async pollAfterNotice(projectId: bigint): Promise<void> {
    await Promise.all(this.#watches(projectId).map((watch) => watch.pollNow()))
  }

  async pollAndReport(projectId: bigint): Promise<void> {
    await Promise.all(this.#watches(projectId).map((watch) => watch.pollNow(false)))
  }

  /** Lists watches of the default branch, if it is read, and of refs that are followed or were a moment ago. */
  #watches(projectId: bigint): BranchWatch[] {
    const { addresses, keyOf } = this.#components
    const address = addresses.repository(projectId)
    if (!address) return []
    const followed = Array.from(this.#followers.get(projectId) ?? [], ({ of }) => of.ref)
    const refs = new Set([undefined, ...followed, ...(this.#leftRefs.get(projectId) ?? [])])
    return [...refs].flatMap((ref) => this.#opened.peek(keyOf(address, ref))?.repository.watch ?? [])
  }

  /** Attaches a follower to its repository's current address. A follower of a project without one waits for it. */
  #follow(follower: Follower): void {
    const { of } = follower
    const address = this.#components.addresses.repository(of.project.id)
    follower.key = address && this.#components.keyOf(address, of.ref)
    const opened = address && this.#at(address, of)
    opened?.cancelEnd()
    opened?.release()
    const wasFollowed = opened?.isFollowedHere
    follower.detach = opened ? opened.follow(follower) : () => undefined
    if (wasFollowed === opened?.isFollowedHere) return
    this.#followedListeners.notify()
  }

  #addressesChanged(projectId?: bigint): void {
    const changed = projectId === undefined ? [...this.#followers.values()] : [this.#followers.get(projectId) ?? []]
    for (const followers of changed) for (const follower of followers) this.#followAnew(follower)
  }

  #followAnew(follower: Follower): void {
    const { of } = follower
    const address = this.#components.addresses.repository(of.project.id)
    if (follower.key === (address && this.#components.keyOf(address, of.ref))) {
      if (follower.key !== undefined) this.#opened.peek(follower.key)?.repository.watch.periodChanged()
      return
    }
    follower.detach()
    this.#unfollowed(follower)
    this.#follow(follower)
    follower.listener()
  }

  /** Ends a ref beside the default branch `keepUnfollowedMs` after its last follower left. */
  #unfollowed({ of, key }: Follower): void {
    const opened = key === undefined ? undefined : this.#opened.peek(key)
    if (!opened || key === undefined || of.ref === undefined || this.#stopped) return
    opened.cancelEnd()
    const forget = this.#remember(of.project.id, of.ref)
    const endLater = () => {
      const cancel = this.#components.clock.after(keepUnfollowedMs, () => {
        if (opened.inUse) endLater()
        else this.#opened.end(key, opened)
      })
      opened.cancelEnd = () => {
        cancel()
        forget()
      }
    }
    endLater()
  }

  /** Calls `released` when everything kept for this follower alone has ended. */
  #release({ of, key, following }: Follower): void {
    const { released } = following
    if (!released) return
    const opened = key === undefined ? undefined : this.#opened.peek(key)
    const isShared = [...(this.#followers.get(of.project.id) ?? [])].some((other) => other.key === key)
    if (opened && of.ref !== undefined && !isShared) opened.releaseLater(released)
    else released()
  }

  #remember(projectId: bigint, ref: string): () => void {
    const refs = this.#leftRefs.get(projectId) ?? new Set()
    this.#leftRefs.set(projectId, refs.add(ref))
    return () => {
      refs.delete(ref)
      if (refs.size === 0 && this.#leftRefs.get(projectId) === refs) this.#leftRefs.delete(projectId)
    }
  }

  /** @throws KasError REPOSITORY_FAILED if the project has no repository, SHUTTING_DOWN */
  #of(of: Reading): OpenedRepository {
    const address = this.#components.addresses.repository(of.project.id)
    if (address) return this.#at(address, of)
    throw new KasError({ code: 'REPOSITORY_FAILED', detail: this.#options.absence(of) })
  }

  #at(address: Address, { id: agentId, project, ref }: Reading): OpenedRepository {
    if (this.#stopped) throw new KasError({ code: 'SHUTTING_DOWN' })
    const { keyOf, open } = this.#components
    const key = keyOf(address, ref)
    const projectId = project.id
    return this.#opened.at(key, () => {
      const watched = this.#watched(address, key, projectId)
      return new OpenedRepository(open(key, address, { projectId, ref, agentId, watched }))
    })
  }

  #watched(address: Address, key: string, projectId: bigint): OpenedFor['watched'] {
    const { polls, keyOf } = this.#components
    const followers = () => this.#opened.peek(key)?.followers ?? new Set()
    const isFollowedHere = () => this.#opened.peek(key)?.isFollowedHere === true
    const repositoryKey = keyOf(address, undefined)
    const { pollMs: usualMs } = this.#options
    const wantedMs = (ms: number) => {
      const wanted = Array.from(followers(), (each) => each.following.pollMs ?? ms)
      return wanted.length > 0 ? Math.min(...wanted) : ms
    }
    const onFound = () => this.#foundListeners.notify(projectId)
    return {
      onFound,
      polls: polls && (() => polls({ repositoryKey, key, followers: followers(), isFollowedHere: isFollowedHere() })),
      pollMs: usualMs === undefined ? undefined : () => wantedMs(usualMs),
    }
  }

  #end(opened: OpenedRepository): void {
    opened.cancelEnd()
    const ended = opened.repository.stop({ remove: !this.#stopped }).then(() => {
      this.#ending.delete(ended)
      opened.release()
    })
    this.#ending.add(ended)
  }
}
