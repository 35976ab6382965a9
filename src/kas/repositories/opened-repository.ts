import type { AgentId } from '../../call/call.ts'
import type { BranchWatch, BranchWatchComponents } from './branch-watch.ts'
import type { CommitId, Following, Reading } from './repositories.ts'
import type { Tree } from './tree.ts'

/** A repository that is read, with the watch of one branch or ref. */
export interface WatchedRepository {
  readonly watch: BranchWatch
  readonly tree: Tree
  /** Returns a file at a commit, as `Repositories.file`. */
  file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined>
  /**
   * Ends all running work, and the watch.
   *
   * @param how.remove - also removes everything that the repository keeps outside this process
   */
  stop(how: { readonly remove: boolean }): Promise<void>
}

/** Project and ref for which a repository is opened. */
export interface OpenedFor {
  readonly projectId: bigint
  readonly ref: string | undefined
  /** the first agent that reads it */
  readonly agentId: AgentId
  /** callbacks for its `BranchWatch` */
  readonly watched: Pick<BranchWatchComponents, 'polls' | 'pollMs' | 'onFound'>
}

/** A follower of an agent's repository, also when its address changes. */
export interface Follower {
  readonly of: Reading
  readonly following: Following
  readonly listener: () => void
  /** key of the repository that is followed now; undefined: the project has none */
  key: string | undefined
  detach: () => void
}

/** A repository with its running reads and followers. One in use makes no room for others. */
export class OpenedRepository {
  readonly repository: WatchedRepository
  readonly followers = new Set<Follower>()
  cancelEnd = () => {}
  /** callbacks after the repository has ended, or is followed again */
  readonly #released: (() => void)[] = []
  #reads = 0

  constructor(repository: WatchedRepository) {
    this.repository = repository
  }

  /** True if this replica itself follows it, not only on behalf of a peer. */
  get isFollowedHere(): boolean {
    return this.followers.values().some(({ following }) => !following.isForPeer)
  }

  /** @returns the function that ends it */
  follow(follower: Follower): () => void {
    this.followers.add(follower)
    const detach = this.repository.watch.onMove(follower.listener)
    return () => {
      this.followers.delete(follower)
      detach()
    }
  }

  releaseLater(released: () => void): void {
    this.#released.push(released)
  }

  release(): void {
    for (const released of this.#released.splice(0)) released()
  }

  get inUse(): boolean {
    return this.#reads > 0 || this.repository.watch.inUse
  }

  async read<T>(read: (repository: WatchedRepository) => Promise<T>): Promise<T> {
    this.#reads += 1
    try {
      return await read(this.repository)
    } finally {
      this.#reads -= 1
    }
  }
}
