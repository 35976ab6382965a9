/** A kind that the API server serves, in its preferred version. One object for all who ask. */
export interface ResourceKind {
  /** `group/Kind`; `Kind` alone of the core group */
  readonly key: string
  readonly group: string
  readonly version: string
  /** as in paths: `deployments` */
  readonly plural: string
  readonly isNamespaced: boolean
}
