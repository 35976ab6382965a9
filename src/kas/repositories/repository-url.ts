/** Where the repository of a project lies, and how it is read. */
export interface RepositoryAddress {
  /** checked by `problemOfRepositoryUrl` */
  readonly url: string
  /** a file that holds `user:password`, or a token alone; https only */
  readonly credentialsFile?: string | undefined
  /** default: what the repository says */
  readonly defaultBranch?: string | undefined
  /** full name of a ref, or the id of a commit, that is read instead of the default branch */
  readonly ref?: string | undefined
  /** from the end of one poll to the next while it is followed, in ms; default: `usualPollMs` */
  readonly pollMs?: number | undefined
  /** a file with the secret by which a hook of the server is known; absent: it has none */
  readonly hookSecretFile?: string | undefined
}

/** of a repository on this machine, or on a disk that it shares: "a push is noticed within seconds". ms */
const localPollMs = 3000
/** of one whose server counts who asks. ms */
const remotePollMs = 30_000
/** of one whose server announces pushes: what is missed is found all the same. ms */
const hookedPollMs = 300_000

/** From the end of one poll to the next, where nothing says it, in ms. */
export function usualPollMs({ url, hookSecretFile }: RepositoryAddress): number {
  if (hookSecretFile !== undefined) return hookedPollMs
  return isOnThisMachine(url) ? localPollMs : remotePollMs
}

export function isOnThisMachine(url: string): boolean {
  return url.startsWith('/') || url.startsWith('file:')
}

/** `git@host:path`, but no `ext::command` and no option as host. */
const scpForm = /^[\w.-]+@[A-Za-z0-9][\w.-]*:(?!:)[^\s]+$/

/**
 * Says what is wrong with a repository's URL, or `undefined` if it may be used: an absolute path, `file://`,
 * `https://` without userinfo, `ssh://user@host/path` or `user@host:path`. The answer never holds the URL.
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
