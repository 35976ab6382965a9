/** What discovery says of a kind's names, beside kind and plural. */
export interface KindNames {
  readonly singular: string
  readonly short: readonly string[]
  readonly categories: readonly string[]
}

/** A kind that the API server serves, in its preferred version. One object for all who ask. */
export interface ResourceKind {
  /** `group/Kind`; `Kind` alone of the core group */
  readonly key: string
  readonly group: string
  readonly version: string
  /** as in paths: `deployments` */
  readonly plural: string
  readonly isNamespaced: boolean
  /** absent: not known */
  readonly names?: KindNames | undefined
}
