import { readFile } from 'node:fs/promises'

/** A user that an API server saw, by its audit log. */

export interface Identity {
  readonly username: string
  readonly groups?: readonly string[]
  readonly uid?: string
  readonly extra?: Readonly<Record<string, readonly string[]>>
}

export interface Seen {
  /** user of the credentials */
  readonly by: string
  /** undefined: the same */
  readonly as: Identity | undefined
  readonly requestUri: string
  readonly code: number | undefined
}

interface AuditEvent {
  readonly auditID: string
  readonly user: Identity
  readonly impersonatedUser?: Identity
  readonly requestURI: string
  readonly responseStatus?: { readonly code?: number }
}

/** Returns each request once, without a line that is still being written. */
export async function seenBy(auditLogFile: string): Promise<Seen[]> {
  const lines = (await readFile(auditLogFile, 'utf8')).split('\n').slice(0, -1)
  const events = new Map(lines.map((line) => JSON.parse(line) as AuditEvent).map((event) => [event.auditID, event]))
  return [...events.values()].map(({ user, impersonatedUser, requestURI, responseStatus }) => ({
    by: user.username,
    as: impersonatedUser,
    requestUri: requestURI,
    code: responseStatus?.code,
  }))
}

/** Groups that the API server adds to an identity. */
const isAdded = (group: string) => /^system:(?:authenticated|serviceaccounts(?::.*)?)$/.test(group)
/** prefix of extra keys that only kas sets */
const kasKeys = 'agent.gitlab.com/'

/**
 * Names of `seen` that neither values and flags list, nor kas sets by itself.
 *
 * @param listed - entries such as `user:NAME`
 * @param kasSays - identities that kas names in this mode
 */
export function strangeNames(seen: Identity, listed: ReadonlySet<string>, kasSays: readonly Identity[]): string[] {
  if (listed.has('any')) return []
  const said = (is: (one: Identity) => boolean) => kasSays.some(is)
  const { username, groups = [], uid, extra = {} } = seen
  const isAccount = username.startsWith('system:serviceaccount:')
  const entry = isAccount ? username.slice('system:'.length) : `user:${username}`
  const strange: string[] = []
  if (!said((one) => one.username === username) && !listed.has(entry)) strange.push(entry)
  for (const group of groups) {
    if (isAdded(group) || listed.has(`group:${group}`) || said((one) => one.groups?.includes(group) ?? false)) continue
    strange.push(`group:${group}`)
  }
  if (uid && !listed.has(`uid:${uid}`)) strange.push(`uid:${uid}`)
  const keys = new Set([...listed].map((one) => one.toLowerCase()))
  for (const key of Object.keys(extra)) {
    // the username beside them shows whether their values are kas' own
    if (key.startsWith(kasKeys) && said((one) => one.username === username)) continue
    if (!keys.has(`extra:${key}`)) strange.push(`extra:${key}`)
  }
  return strange
}
