/** Who calls an agent: what the directory granted, never what a header says. */
export interface Caller {
  /** `user 7`, `project 42` of a job, `gitlab`, `kas`; undefined: another replica let him in, and knows */
  readonly name?: string
  /** the same at all replicas */
  readonly key: string
  /** of the user whose jobs these are: his own as a caller. Absent: nobody else is behind it */
  readonly userKey?: string
}

/** Its calls on its own behalf. */
export const gitlabCaller: Caller = { name: 'gitlab', key: 'gitlab' }
/** What kas itself asks of agents. */
export const kasCaller: Caller = { name: 'kas', key: 'kas' }

/** The key that a call's memory counts for: jobs count for the user that started them. */
export function payerOf({ key, userKey = key }: Caller): string {
  return userKey
}

const withoutShare: ReadonlySet<string> = new Set([gitlabCaller.key, kasCaller.key])

/** @returns false: these are many, or ours, and not refused for how much they hold */
export function hasShare(callerKey: string): boolean {
  return !withoutShare.has(callerKey)
}
