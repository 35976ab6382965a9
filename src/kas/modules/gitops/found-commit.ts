import { maxBranchLength } from '../../../proto/gitops/limits.ts'
import type { CommitId, Reading, Repositories } from '../../repositories/repositories.ts'
import type { ObjectsRequest } from './objects-request.ts'

/** A commit that a source can get. */
export interface Found {
  readonly reading: Reading
  readonly commit: CommitId
  /** default branch of the commit; empty: another ref is followed, or the name is not known */
  readonly branch: string
}

/** Adds the branch to a commit. @param commit - undefined: the repository is empty, and so is the result */
export function foundAt(
  repositories: Pick<Repositories, 'lastPoll'>,
  reading: Reading,
  commit: CommitId | undefined,
): Found | undefined {
  if (commit === undefined) return undefined
  const polled = reading.ref === undefined ? repositories.lastPoll(reading) : undefined
  const branch = polled?.commit === commit ? (polled.branch ?? '') : '' // a later poll may have found another commit
  return { reading, commit, branch: branch.slice(0, maxBranchLength) }
}

/** True if the agent has the commit as one of this branch: after a rename the commit is sent again. */
export function isKnown(
  { commit, branch }: Pick<ObjectsRequest, 'commit' | 'branch'>,
  found: Found | undefined,
): boolean {
  if (!found || found.commit !== commit) return !found
  return branch === '' || found.branch === '' || found.branch === branch
}
