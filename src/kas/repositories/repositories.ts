import { KasError } from '../../lib/errors.ts'
import type { Agent } from '../agent.ts'

/** A commit id, 40 or 64 hex digits. */
export type CommitId = string & { readonly brand: 'CommitId' }

export function isCommitId(text: string): text is CommitId {
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text)
}

/** True if a commit is refused because of its content: reading it again fails in the same way. */
export function isRefused(error: unknown): error is KasError {
  return error instanceof KasError && error.spec.code === 'REPOSITORY_FAILED' && error.spec.isRefused === true
}

/** A ref to read and the agent it is read for. An agent itself is a Reading of its project's default branch. */
export interface Reading extends Pick<Agent, 'id' | 'project'> {
  /** full name of a ref, or the id of a commit; absent: the default branch */
  readonly ref?: string | undefined
}

/** Result of a poll of a ref. */
export interface Polled {
  /** undefined: the repository is empty, or the ref was not found or could not be read */
  readonly commit: CommitId | undefined
  /** name of the default branch, if the poll read it; undefined: not known */
  readonly branch?: string | undefined
  /** when the poll began, by the clock */
  readonly at: number
  /** when any replica last could read the repository, by the clock; undefined: not known */
  readonly readAt?: number | undefined
}

export interface Following {
  /** the longest time from one poll to the next, in ms; undefined: as for agents' configurations */
  readonly pollMs?: number
  /** another replica follows the ref: this replica polls on its behalf */
  readonly isForPeer?: boolean
  /**
   * Called once after the follower left: when everything kept for this follower alone was removed, or others follow the
   * ref.
   */
  released?(): void
}

/** Reads the repository of an agent's project, and notifies of moves of its default branch. */
export interface Repositories {
  /**
   * Returns the head of the default branch, or of the ref, as last seen; `undefined` while the repository is empty.
   *
   * @throws KasError REF_NOT_FOUND, REPOSITORY_FAILED
   */
  head(of: Reading, signal: AbortSignal): Promise<CommitId | undefined>
  /**
   * Shortens the wait for the head: a request behind others moves forward, since a caller has nothing until it is
   * found.
   */
  hurry(of: Reading): void
  /** Returns when the head was last polled, by the clock, in milliseconds since 1970; undefined: never. */
  seenAt(of: Reading): number | undefined
  /** Returns the result of the newest poll, which may be a failure; undefined: there was no poll. */
  lastPoll(of: Reading): Polled | undefined
  /**
   * Returns a file at a commit; `undefined` if it is absent there.
   *
   * @throws KasError CONFIGURATION_INVALID if it is larger than `maxBytes` or not a file, REPOSITORY_FAILED
   */
  file(
    agent: Agent,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined>
  /** Polls the repository of this project now, after a notice that peers get, too; does nothing if nobody reads it. */
  pollAfterNotice(projectId: bigint): Promise<void>
  /** As `pollAfterNotice`, but peers know nothing of it, as after a hook: a new head is reported to them. */
  pollAndReport(projectId: bigint): Promise<void>
  /** Calls `listener` after the branch moved, until the returned function is called. */
  onMove(of: Reading, listener: () => void, following?: Following): () => void
}
