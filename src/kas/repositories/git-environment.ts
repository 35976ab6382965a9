import { readCredentials } from './git-credentials.ts'
import { isOnThisMachine, type RepositoryAddress } from './repository-url.ts'

export interface GitEnvironmentOptions {
  /** of kas: git gets a few names of it, never all */
  readonly env: Readonly<Record<string, string | undefined>>
  /** what a process and each of its helpers may allocate, beside the files that it maps; whole KiB */
  readonly maxMemoryBytes: number
}

/** What git may know of kas' environment: where programs, the user's ssh files and certificates lie, which proxy. */
const passedOn = [
  ...['PATH', 'HOME', 'TMPDIR', 'SSH_AUTH_SOCK', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy', 'ALL_PROXY', 'all_proxy'],
]

/** The transports that git may speak: no http, whose credentials travel in the clear, and no `ext::`. */
const allowedProtocols = 'file:https:ssh'

/**
 * What keeps git below its bound of memory as long as it can: files over 1 MiB are streamed, unless they are stored as a
 * difference to another; one thread, small caches.
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
 * Of a git that works in `folder`, the credentials for `address` among it, read anew: they go by the environment, which
 * other users cannot see, never by argv.
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
    GIT_ALLOC_LIMIT: String(maxMemoryBytes), // of one object, also where the system counts no memory
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

/** Of a repository on this machine, which a git of ours serves: it gets no settings by the environment. */
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
  if (env.SSL_CERT_FILE) settings['http.sslCAInfo'] = env.SSL_CERT_FILE // not every libcurl reads the variable
  if (!address.credentialsFile) return settings
  const { origin } = new URL(address.url)
  // to this host alone, and a redirect is not followed with it
  settings[`http.${origin}/.extraHeader`] = `Authorization: Basic ${await readCredentials(address.credentialsFile)}`
  settings['http.followRedirects'] = 'false'
  return settings
}
