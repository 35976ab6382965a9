import type { Clock } from '../../lib/clock.ts'
import type { CommitId, Reading } from './repositories.ts'

/** A branch, or another ref, as this replica knows it. */
export interface BranchHere {
  /** of its repository, by which replicas are ranked for it */
  readonly repositoryKey: string
  /** of the branch: equal where it is read in the same way from the same place */
  readonly key: string
  readonly of: Reading
  /** undefined: not known */
  readonly commit: CommitId | undefined
  /** when anybody could read it last, by the clock; undefined: not known */
  readonly readAt?: number | undefined
  /** it could not be polled last */
  readonly isFailing: boolean
}

/** Branches of which one replica is to poll each for all that follow it. */
export interface SharedPolls {
  /** Each once; what a peer has this replica follow is not among them. */
  followed(): readonly BranchHere[]
  /** Calls `listener` after something more is followed, until the returned function is called. */
  onFollowed(listener: () => void): () => void
  /** Undefined: the project has no repository. */
  branch(of: Reading): BranchHere | undefined
  /** A peer could read it then, by the clock. */
  peerRead(of: Reading, at: number): void
  /** Whether anything of the project's repository is followed here, also for a peer. */
  isFollowed(projectId: bigint): boolean
  /** @returns what ends it */
  followForPeer(of: Reading): () => void
  readonly elsewhere: PolledElsewhere
}

export interface PolledElsewhereComponents {
  /** this replica, or one in reach */
  readonly peers: { first(key: string): 'self' | { readonly instance: string } | undefined }
  readonly clock: Clock
}

type Branch = Pick<BranchHere, 'repositoryKey' | 'key'>

/** Which branches a peer polls for this replica, as it announced a while ago. */
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

  /** The peer does not, or nobody knows. */
  forget({ key }: Branch): void {
    this.#announced.delete(key)
  }

  /** Forgets all but these: they are followed no more. */
  keep(branches: readonly Branch[]): void {
    const kept = new Set(branches.map(({ key }) => key))
    for (const key of this.#announced.keys()) if (!kept.has(key)) this.#announced.delete(key)
  }

  /** @param isOwn - this replica itself follows it; else a peer has it do so, as the first in rank */
  pollsHere({ repositoryKey, key }: Branch, isOwn: boolean): boolean {
    const { peers, clock } = this.#components
    const first = peers.first(repositoryKey)
    if (first === 'self') return true
    const known = this.#announced.get(key)
    return isOwn && !(known && known.instance === first?.instance && clock.now() < known.until)
  }
}
