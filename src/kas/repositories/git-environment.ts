import { readCredentials } from './git-credentials.ts'
import { isOnThisMachine, type RepositoryAddress } from './repository-url.ts'

export interface GitEnvironmentOptions {
  /** environment of kas; git gets a few variables of it, never all */
  readonly env: Readonly<Record<string, string | undefined>>
  /** memory that a process and each of its helpers may allocate, beside the files that it maps; whole KiB */
  readonly maxMemoryBytes: number
}

/** Variables of kas' environment that git gets: programs, the user's ssh files, certificates, proxies. */
const passedOn = [
  ...['PATH', 'HOME', 'TMPDIR', 'SSH_AUTH_SOCK', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy', 'ALL_PROXY', 'all_proxy'],
]

/** Transports that git may use: no http, which sends credentials in clear text, and no `ext::`. */
const allowedProtocols = 'file:https:ssh'

/**
 * Settings that keep git's memory low: one thread, small caches, and files over 1 MiB are streamed. A file that is
 * stored as a delta is not streamed.
 */
const memorySettings: Readonly<Record<string, string>> = {
  'core.bigFileThreshold': '1m',
  'core.deltaBaseCacheLimit': '8m',
  'core.packedGitWindowSize': '8m',
  'core.packedGitLimit': '32m',
  'pack.threads': '1',
  'pack.windowMemory': '8m',
}

const localSettings: Readonly<Record<string, string>> = {
  'safe.bareRepository': 'all',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'fetch.fsckObjects': 'true',
  ...memorySettings,
}

/**
 * Returns the environment of a git that works in `folder`. It includes the credentials for `address`, which are read on
 * each call. Other users cannot see the environment; they can see argv.
 *
 * @throws KasError REPOSITORY_FAILED if the credentials cannot be read
 */
export async function gitEnvironment(
  folder: string,
  address: RepositoryAddress | undefined,
  { env: own, maxMemoryBytes }: GitEnvironmentOptions,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: allowedProtocols,
    GIT_ALLOC_LIMIT: String(maxMemoryBytes), // bounds one object, also where the system limits no memory
    GIT_DIR: folder,
  }
  for (const name of passedOn) {
    const value = own[name]
    if (value !== undefined) env[name] = value
  }
  const entries = Object.entries({ ...localSettings, ...(address && (await remoteSettings(address, own))) })
  env.GIT_CONFIG_COUNT = String(entries.length)
  for (const [i, [key, value]] of entries.entries()) {
    env[`GIT_CONFIG_KEY_${i}`] = key
    env[`GIT_CONFIG_VALUE_${i}`] = value
  }
  return env
}

/**
 * Returns options of fetch for a repository on this machine. A git process of kas serves it and takes no settings from
 * the environment.
 */
export function uploadPackOptions(url: string): readonly string[] {
  if (!isOnThisMachine(url)) return []
  const settings = Object.entries(memorySettings).map(([key, value]) => `-c ${key}=${value}`)
  return [`--upload-pack=git ${settings.join(' ')} -c uploadpack.allowFilter=true upload-pack`]
}

async function remoteSettings(
  address: RepositoryAddress,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Readonly<Record<string, string>>> {
  const settings: Record<string, string> = {}
  if (!address.url.startsWith('https://')) return settings
  if (env.SSL_CERT_FILE) settings['http.sslCAInfo'] = env.SSL_CERT_FILE // some libcurls do not read the variable
  if (!address.credentialsFile) return settings
  const { origin } = new URL(address.url)
  // only this host gets the header, and git does not follow a redirect with it
  settings[`http.${origin}/.extraHeader`] = `Authorization: Basic ${await readCredentials(address.credentialsFile)}`
  settings['http.followRedirects'] = 'false'
  return settings
}
