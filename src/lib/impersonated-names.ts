/** Users and groups whose names begin so are GitLab's users and jobs: kas alone names them. */
export const kasNamePrefix = 'gitlab:'
/** Extra keys that begin so say what GitLab knows of a user or job: kas alone sets them. */
export const kasExtraPrefix = 'agent.gitlab.com/'

/** The names in an identity that a request acts as. */
export interface ImpersonatedNames {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid: string
  readonly extra: readonly { readonly key: string }[]
}

/** Whether kas alone may give this name to a user or group: the API server does not count white space around it. */
export function isKasName(name: string): boolean {
  return name.trim().startsWith(kasNamePrefix)
}

/** Whether kas alone may set this extra key. */
export function isKasExtraKey(key: string): boolean {
  return asReadKey(key).startsWith(kasExtraPrefix)
}

/**
 * The entries that agentk's `--may-impersonate` must have for this identity, in the order of its names; none: agentk
 * accepts it by default.
 */
export function entriesNeeded({ username, groups, uid, extra }: ImpersonatedNames): string[] {
  const entries: string[] = []
  if (username !== '' && !username.startsWith(kasNamePrefix)) entries.push(userEntry(username))
  for (const group of groups) if (!group.startsWith(kasNamePrefix)) entries.push(groupEntry(group))
  if (uid !== '') entries.push(`uid:${uid}`)
  for (const { key } of extra) if (!isKasExtraKey(key)) entries.push(extraEntry(key))
  return [...new Set(entries)]
}

/** The same entry for both ways to write a service account. */
export function userEntry(name: string): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(name) ?? []
  return account === undefined ? `user:${name}` : `serviceaccount:${account}`
}

export function groupEntry(name: string): string {
  return `group:${name}`
}

/** API servers read keys in lower case. */
export function extraEntry(key: string): string {
  return `extra:${asReadKey(key)}`
}

function asReadKey(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
}
