import { KasError } from '../../lib/errors.ts'
import type { Agent } from '../agent.ts'

/** A commit id, 40 or 64 hex digits. */
export type CommitId = string & { readonly brand: 'CommitId' }

export function isCommitId(text: string): text is CommitId {
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text)
}

/** Whether a commit is refused for what it holds, so that it is of no use to read it again. */
export function isRefused(error: unknown): error is KasError {
  return error instanceof KasError && error.spec.code === 'REPOSITORY_FAILED' && error.spec.isRefused === true
}

/** What is read, and for whom. An agent is one: the default branch of its own project. */
export interface Reading extends Pick<Agent, 'id' | 'project'> {
  /** full name of a ref, or the id of a commit; absent: the default branch */
  readonly ref?: string | undefined
}

/** What a poll of a ref has found. */
export interface Polled {
  /** undefined: the repository is empty, or the ref was not found or could not be read */
  readonly commit: CommitId | undefined
  /** name of the default branch, where that was polled and is known */
  readonly branch?: string | undefined
  /** when the poll began, by the clock */
  readonly at: number
  /** when anybody could read the repository last, by the clock; absent: not known */
  readonly readAt?: number | undefined
}

export interface Following {
  /** from one poll to the next, at most; absent: as for agents' configurations */
  readonly pollMs?: number
  /** another replica follows it: here it is polled for that one */
  readonly isForPeer?: boolean
  /** Called once, after it was left: nothing is kept of what this follower alone wanted, or others follow it. */
  released?(): void
}

/** Reads the repository of an agent's project, and notifies of moves of its default branch. */
export interface Repositories {
  /**
   * Head of the default branch, or of the ref, as last seen; `undefined` while the repository is empty.
   *
   * @throws KasError REF_NOT_FOUND, REPOSITORY_FAILED
   */
  head(of: Reading, signal: AbortSignal): Promise<CommitId | undefined>
  /** Somebody has nothing until the head is found: a question that waits behind others waits less. */
  hurry(of: Reading): void
  /** When that was found, by the clock, in milliseconds since 1970; undefined: never. */
  seenAt(of: Reading): number | undefined
  /** What the newest poll has found, which may be that it failed; undefined: there was none. */
  lastPoll(of: Reading): Polled | undefined
  /**
   * A file at a commit; `undefined` if it is absent there.
   *
   * @throws KasError CONFIGURATION_INVALID if it is larger than `maxBytes` or no file, REPOSITORY_FAILED
   */
  file(
    agent: Agent,
    commit: CommitId,
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined>
  /** Polls the repository of this project now, as after a notice of a push; does nothing if nobody reads it. */
  poke(projectId: bigint): Promise<void>
  /** As `poke`, without GitLab's notice, for hooks: peers may not know what is found, and it is reported to them. */
  refresh(projectId: bigint): Promise<void>
  /** Calls `listener` after the branch moved, until the returned function is called. */
  onMove(of: Reading, listener: () => void, following?: Following): () => void
}
