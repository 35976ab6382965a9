import type { Clock } from '../../lib/clock.ts'
import type { CommitId, Reading } from './repositories.ts'

/** A branch, or another ref, as this replica knows it. */
export interface BranchHere {
  /** key of the branch's repository, by which replicas are ranked */
  readonly repositoryKey: string
  /** key of the branch: equal if it is read in the same way from the same address */
  readonly key: string
  readonly of: Reading
  /** undefined: not known */
  readonly commit: CommitId | undefined
  /** when any replica last could read it, by the clock; undefined: not known */
  readonly readAt?: number | undefined
  /** the last poll failed */
  readonly isFailing: boolean
}

/** Branches of which one replica polls each for all that follow it. */
export interface SharedPolls {
  /** Lists each branch that this replica follows itself, once; not those that it follows for a peer alone. */
  followed(): readonly BranchHere[]
  /** Calls `listener` after this replica follows another branch, until the returned function is called. */
  onFollowed(listener: () => void): () => void
  /** Returns a branch as this replica knows it; undefined: the project has no repository. */
  branch(of: Reading): BranchHere | undefined
  /** Records that a peer could read the repository at this time, by the clock. */
  peerRead(of: Reading, at: number): void
  /** True if this replica follows or polls a ref of the project's repository, also for a peer. */
  isFollowed(projectId: bigint): boolean
  /** @returns the function that ends it */
  followForPeer(of: Reading): () => void
  readonly elsewhere: PolledElsewhere
}

export interface PolledElsewhereComponents {
  /** returns the replica that is first in rank for a key: this replica, or one in reach */
  readonly peers: { first(key: string): 'self' | { readonly instance: string } | undefined }
  readonly clock: Clock
}

type Branch = Pick<BranchHere, 'repositoryKey' | 'key'>

/** Branches that a peer polls for this replica, as that peer announced. */
export class PolledElsewhere {
  readonly #components: PolledElsewhereComponents
  /** by key of the branch */
  readonly #announced = new Map<string, { readonly instance: string; readonly until: number }>()

  constructor(components: PolledElsewhereComponents) {
    this.#components = components
  }

  /** @param until - by the clock */
  announced({ key }: Branch, { instance, until }: { readonly instance: string; readonly until: number }): void {
    this.#announced.set(key, { instance, until })
  }

  /** Forgets the announcement: the peer does not poll the branch, or its state is unknown. */
  forget({ key }: Branch): void {
    this.#announced.delete(key)
  }

  /** Forgets all other branches, which this replica no longer follows. */
  keep(branches: readonly Branch[]): void {
    const kept = new Set(branches.map(({ key }) => key))
    for (const key of this.#announced.keys()) if (!kept.has(key)) this.#announced.delete(key)
  }

  /**
   * True if this replica polls the branch.
   *
   * @param isOwn - this replica follows the branch itself; otherwise it polls for a peer, as the first in rank
   */
  pollsHere({ repositoryKey, key }: Branch, isOwn: boolean): boolean {
    const { peers, clock } = this.#components
    const first = peers.first(repositoryKey)
    if (first === 'self') return true
    const known = this.#announced.get(key)
    return isOwn && !(known && known.instance === first?.instance && clock.now() < known.until)
  }
}
