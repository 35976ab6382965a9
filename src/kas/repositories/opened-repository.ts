import type { AgentId } from '../../call/call.ts'
import type { BranchWatch, BranchWatchComponents } from './branch-watch.ts'
import type { CommitId, Following, Reading } from './repositories.ts'
import type { Tree } from './tree.ts'

/** One repository that is read, and whose branch is watched. */
export interface WatchedRepository {
  readonly watch: BranchWatch
  readonly tree: Tree
  /** As `Repositories.file`. */
  file(commit: CommitId, path: string, maxBytes: number, signal: AbortSignal): Promise<Uint8Array | undefined>
  /**
   * Ends all that runs, the watch too.
   *
   * @param how.remove - what it keeps outside this process is removed
   */
  stop(how: { readonly remove: boolean }): Promise<void>
}

/** Whose repository is opened, at the default branch or another ref. */
export interface OpenedFor {
  readonly projectId: bigint
  readonly ref: string | undefined
  /** who was the first to read it */
  readonly agentId: AgentId
  /** for its `BranchWatch` */
  readonly watched: Pick<BranchWatchComponents, 'polls' | 'pollMs' | 'onFound'>
}

/** Somebody who follows an agent's repository, wherever it lies. */
export interface Follower {
  readonly of: Reading
  readonly following: Following
  readonly listener: () => void
  /** of the repository that is followed now */
  key: string | undefined
  detach: () => void
}

/** A repository with the reads that run: one that is read does not make room. */
export class OpenedRepository {
  readonly repository: WatchedRepository
  readonly followers = new Set<Follower>()
  cancelEnd = () => {}
  /** called once it has ended, or is followed again */
  readonly #released: (() => void)[] = []
  #reads = 0

  constructor(repository: WatchedRepository) {
    this.repository = repository
  }

  /** This replica itself follows it, not for a peer alone. */
  get isFollowedHere(): boolean {
    return this.followers.values().some(({ following }) => !following.isForPeer)
  }

  /** @returns what ends it */
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
