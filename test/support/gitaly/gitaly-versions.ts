/** What differs between the releases of Gitaly that kas meets: words and codes; the calls themselves do not. */

export interface GitalyVersionTraits {
  /** of TreeEntry, for an absent file and for an absent commit alike */
  readonly absentText: string
  /** GetTreeEntries of a commit that is not there: nothing at all, or INVALID_ARGUMENT */
  readonly absentCommit: 'nothing' | 'invalid_argument'
  /** of any call for a repository that is not there */
  readonly absentRepositoryText: string
}

export const gitalyVersions = {
  '16.5': {
    absentText: 'tree entry not found',
    absentCommit: 'nothing',
    absentRepositoryText: 'GetRepoPath: not a git repository',
  },
  '17.9': {
    absentText: 'tree entry not found',
    absentCommit: 'invalid_argument',
    absentRepositoryText: 'repository does not exist',
  },
  '18.9': {
    absentText: 'tree entry not found',
    absentCommit: 'invalid_argument',
    absentRepositoryText: 'repository not found',
  },
} as const satisfies Record<string, GitalyVersionTraits>

export type GitalyVersion = keyof typeof gitalyVersions
