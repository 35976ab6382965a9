/** Differences between the releases of Gitaly that kas supports: texts and codes; the calls themselves are the same. */

export interface GitalyVersionTraits {
  /** text of TreeEntry, for an absent file and for an absent commit alike */
  readonly absentText: string
  /** answer of GetTreeEntries for a commit that does not exist: nothing at all, or INVALID_ARGUMENT */
  readonly absentCommit: 'nothing' | 'invalid_argument'
  /** text of any call for a repository that does not exist */
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
