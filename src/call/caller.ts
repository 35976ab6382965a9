/** The caller of an agent, as the directory has granted it. No header decides it. */
export interface Caller {
  /** `user 7`, `project 42` for a job, `gitlab`, `kas`; undefined: only the replica that admitted the caller knows */
  readonly name?: string
  /** the same at all replicas */
  readonly key: string
  /** `key` of the user whose job this is; absent: the caller is not a job */
  readonly userKey?: string
}

/** GitLab, for its calls on its own behalf. */
export const gitlabCaller: Caller = { name: 'gitlab', key: 'gitlab' }
/** kas, for its own calls to agents. */
export const kasCaller: Caller = { name: 'kas', key: 'kas' }

/** Key that a call's memory counts for: jobs count for the user who started them. */
export function payerOf({ key, userKey = key }: Caller): string {
  return userKey
}

const withoutShare: ReadonlySet<string> = new Set([gitlabCaller.key, kasCaller.key])

/** @returns false for GitLab and kas: no share per caller limits their memory or tunnels */
export function hasShare(callerKey: string): boolean {
  return !withoutShare.has(callerKey)
}
