/** Prefix of the names of GitLab's users and jobs, and of their groups: only kas gives such names. */
export const kasNamePrefix = 'gitlab:'
/** Prefix of extra keys with GitLab's data of a user or job: only kas sets them. */
export const kasExtraPrefix = 'agent.gitlab.com/'

/** Names in the identity that a request impersonates. */
export interface ImpersonatedNames {
  readonly username: string
  readonly groups: readonly string[]
  readonly uid: string
  readonly extra: readonly { readonly key: string }[]
}

/**
 * True if only kas may give this name to a user or group. White space around it does not count, as for the API server.
 */
export function isKasName(name: string): boolean {
  return name.trim().startsWith(kasNamePrefix)
}

/** True if only kas may set this extra key. */
export function isKasExtraKey(key: string): boolean {
  return asReadKey(key).startsWith(kasExtraPrefix)
}

/**
 * Returns the entries that agentk's `--may-impersonate` needs for this identity, in the order of its names. None:
 * agentk accepts it by default.
 */
export function entriesNeeded({ username, groups, uid, extra }: ImpersonatedNames): string[] {
  const entries: string[] = []
  if (username !== '' && !username.startsWith(kasNamePrefix)) entries.push(userEntry(username))
  for (const group of groups) if (!group.startsWith(kasNamePrefix)) entries.push(groupEntry(group))
  if (uid !== '') entries.push(`uid:${uid}`)
  for (const { key } of extra) if (!isKasExtraKey(key)) entries.push(extraEntry(key))
  return [...new Set(entries)]
}

/** Returns the same entry for both forms of a service account's name. */
export function userEntry(name: string): string {
  const [, account] = /^system:serviceaccount:([^:]+:[^:]+)$/.exec(name) ?? []
  return account === undefined ? `user:${name}` : `serviceaccount:${account}`
}

export function groupEntry(name: string): string {
  return `group:${name}`
}

/** Entry of a key, in lower case, as API servers read keys. */
export function extraEntry(key: string): string {
  return `extra:${asReadKey(key)}`
}

function asReadKey(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase())
}

/** True if the header can name whom a request acts as, in any spelling. Some servers and proxies read `_` as `-`. */
export function isImpersonationHeader(name: string): boolean {
  return /^impersonate[-_]/i.test(name)
}
