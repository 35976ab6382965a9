/**
 * Location of a project's repository in Gitaly, and the credentials for it, as GitLab names them
 * (doc/reference/tunnel-protocol.md 1.20, 5.3).
 */
export interface GitalyCoordinates {
  readonly address: string
  /** a secret; may be empty */
  readonly token: string
  /** sent to Gitaly as metadata */
  readonly features: Readonly<Record<string, string>>
  readonly repository: {
    readonly storageName: string
    readonly relativePath: string
    readonly glRepository: string
    readonly glProjectPath: string
    readonly gitObjectDirectory: string
    readonly gitAlternateObjectDirectories: readonly string[]
  }
  /** without `refs/heads/`; empty: GitLab named no branch */
  readonly defaultBranch: string
}
