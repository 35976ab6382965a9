import { maxBranchLength } from '../../../proto/gitops/limits.ts'
import type { CommitId, Reading, Repositories } from '../../repositories/repositories.ts'
import type { ObjectsRequest } from './objects-request.ts'

/** A commit that a source may be sent. */
export interface Found {
  readonly reading: Reading
  readonly commit: CommitId
  /** name of the default branch whose commit it is; empty: another ref is followed, or it is not known */
  readonly branch: string
}

/** @param commit - undefined: the repository is empty, and nothing is found */
export function foundAt(
  repositories: Pick<Repositories, 'lastPoll'>,
  reading: Reading,
  commit: CommitId | undefined,
): Found | undefined {
  if (commit === undefined) return undefined
  const polled = reading.ref === undefined ? repositories.lastPoll(reading) : undefined
  const branch = polled?.commit === commit ? (polled.branch ?? '') : '' // a later poll may have found another one
  return { reading, commit, branch: branch.slice(0, maxBranchLength) }
}

/** Checks whether the agent has it, as a commit of this branch: one that was renamed is sent again. */
export function isKnown(
  { commit, branch }: Pick<ObjectsRequest, 'commit' | 'branch'>,
  found: Found | undefined,
): boolean {
  if (!found || found.commit !== commit) return !found
  return branch === '' || found.branch === '' || found.branch === branch
}
