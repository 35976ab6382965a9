/** Address of a project's repository, and how kas reads it. */
export interface RepositoryAddress {
  /** checked by `problemOfRepositoryUrl` */
  readonly url: string
  /** a file with `user:password`, or a token alone; https only */
  readonly credentialsFile?: string | undefined
  /** default: the branch that the repository's HEAD names */
  readonly defaultBranch?: string | undefined
  /** full name of a ref, or the id of a commit, that is read instead of the default branch */
  readonly ref?: string | undefined
  /** from the end of one poll to the next while the repository is followed, in ms; default: `usualPollMs` */
  readonly pollMs?: number | undefined
  /** a file with the secret that authenticates the server's hook; undefined: there is no hook */
  readonly hookSecretFile?: string | undefined
}

/** Poll period of a repository on this machine or on a shared disk, in ms: a push is noticed within seconds. */
const localPollMs = 3000
/** Poll period where the server limits its clients' requests, in ms. */
const remotePollMs = 30_000
/** Poll period where the server announces pushes, in ms: a push whose announcement was lost is found all the same. */
const hookedPollMs = 300_000

/** Returns the time from the end of one poll to the next where the address does not set it, in ms. */
export function usualPollMs({ url, hookSecretFile }: RepositoryAddress): number {
  if (hookSecretFile !== undefined) return hookedPollMs
  return isOnThisMachine(url) ? localPollMs : remotePollMs
}

export function isOnThisMachine(url: string): boolean {
  return url.startsWith('/') || url.startsWith('file:')
}

/** `git@host:path`, without `ext::command` and without an option as host. */
const scpForm = /^[\w.-]+@[A-Za-z0-9][\w.-]*:(?!:)[^\s]+$/

/**
 * Returns the problem of a repository's URL, or `undefined` if the URL is allowed. Allowed are an absolute path,
 * `file://`, `https://` without userinfo, `ssh://user@host/path` and `user@host:path`. The answer never contains the
 * URL.
 */
export function problemOfRepositoryUrl(url: string): string | undefined {
  const allowed = 'an absolute path, or a URL with file, https or ssh'
  if (/[\0-\x20\x7f]/.test(url)) return `${allowed}, without spaces or control characters`
  if (url.startsWith('/') || scpForm.test(url)) return undefined
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || url.includes('::')) return allowed
  const { protocol, username, password, hostname } = parsed
  if (protocol === 'file:') return hostname === '' ? undefined : 'a file URL without a host'
  if (protocol !== 'https:' && protocol !== 'ssh:') return allowed
  if (hostname === '' || hostname.startsWith('-')) return 'a URL with a host'
  if (password !== '') return 'a URL without a password: put credentials in credentials_file'
  if (username.startsWith('-')) return 'a user name that does not start with -'
  if (protocol === 'https:' && username !== '') return 'a URL without a user: put credentials in credentials_file'
  return undefined
}
