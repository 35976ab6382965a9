import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type SimpleGit, simpleGit } from 'simple-git'
import { KasError } from '../../lib/errors.ts'
import { runVariable } from './leftover-processes.ts'
import type { RepositoryAddress } from './repository-url.ts'

export interface GitProcessOptions {
  /** a process that says nothing for so long is ended, in ms */
  readonly silenceTimeoutMs: number
  /** environment of kas: git gets a few names of it, never all */
  readonly env: Readonly<Record<string, string | undefined>>
}

/** What git may know of kas' environment: where programs, the user's ssh files and certificates lie, which proxy. */
const passedOn = [
  ...['PATH', 'HOME', 'TMPDIR', 'SSH_AUTH_SOCK', 'SSL_CERT_FILE', 'SSL_CERT_DIR'],
  ...['HTTPS_PROXY', 'https_proxy', 'NO_PROXY', 'no_proxy', 'ALL_PROXY', 'all_proxy'],
]

/** The transports that git may speak: no http, whose credentials travel in the clear, and no `ext::`. */
const allowedProtocols = 'file:https:ssh'

/** of what git says of a failure */
const maxToldChars = 2000

/** Larger credential files are no credentials. */
const maxCredentialsBytes = 8192

/**
 * A git that works in `folder` and speaks to `address`, its credentials read anew: they go by the environment, which
 * other users cannot see, never by argv.
 *
 * @param how.signal - ends the process, but not its helpers: they bear the mark `how.run`
 * @throws KasError REPOSITORY_FAILED if the credentials cannot be read
 */
export async function gitFor(
  folder: string,
  address: RepositoryAddress,
  options: GitProcessOptions,
  how: { signal: AbortSignal; run: string },
): Promise<SimpleGit> {
  const settings = { ...localSettings, ...(await remoteSettings(address, options.env)) }
  const env = { ...gitEnvironment(folder, options.env, settings), [runVariable]: how.run }
  const guarded = Object.keys(env).filter((name) => name.startsWith('GIT_'))
  return simpleGit({
    baseDir: folder,
    abort: how.signal,
    timeout: { block: options.silenceTimeoutMs },
    allowEnvironment: guarded,
    errors: (error, { exitCode }) => error ?? silentFailure(exitCode),
    unsafe: { allowUnsafeConfigEnvCount: true }, // the only one: for the header with the credentials
  }).env(env)
}

/** simple-git takes a failure without words, such as being killed, for success: an empty answer. */
function silentFailure(exitCode: number | null): Buffer | undefined {
  return exitCode === 0
    ? undefined
    : Buffer.from(`git ended with ${exitCode === null ? 'a signal' : `exit code ${exitCode}`}`)
}

/**
 * Runs git on what `folder` holds, gives it `input` and hands on what it says.
 *
 * @param how.take - what it throws ends the process, and is thrown
 * @throws Error with what git said, if it failed
 */
export async function pipeGit(
  folder: string,
  argv: readonly string[],
  { env, silenceTimeoutMs }: GitProcessOptions,
  how: { readonly input: string; take(bytes: Buffer): void; readonly signal: AbortSignal },
): Promise<void> {
  const git = spawn('git', argv, { cwd: folder, env: gitEnvironment(folder, env, localSettings), signal: how.signal })
  const closed = once(git, 'close') // rejects with its `error`: there is no git, or the signal
  const silent = () => git.kill()
  let timer = setTimeout(silent, silenceTimeoutMs)
  let failure: unknown
  let told = ''
  git.stderr.setEncoding('utf8').on('data', (text: string) => {
    told = (told + text).slice(0, maxToldChars)
  })
  git.stdin.on('error', () => undefined) // it has ended early: its status says why
  git.stdin.end(how.input)
  git.stdout.on('data', (bytes: Buffer) => {
    clearTimeout(timer)
    timer = setTimeout(silent, silenceTimeoutMs)
    try {
      if (failure === undefined) how.take(bytes)
    } catch (error) {
      failure = error
      git.kill()
    }
  })
  try {
    const [status] = await closed
    if (failure !== undefined) throw failure
    if (status !== 0) throw new Error(told || `git ended with ${status ?? 'a signal'}`)
  } finally {
    clearTimeout(timer)
  }
}

const localSettings: Readonly<Record<string, string>> = {
  'safe.bareRepository': 'all',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'fetch.fsckObjects': 'true',
  'core.bigFileThreshold': '1m', // larger files are streamed: a few kB of zeros, packed, would fill the memory
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
  settings[`http.${origin}/.extraHeader`] = `Authorization: Basic ${await credentialsOf(address.credentialsFile)}`
  settings['http.followRedirects'] = 'false'
  return settings
}

/** `user:password`, or a token alone, as the value of Basic. */
async function credentialsOf(file: string): Promise<string> {
  const failed = (detail: string, cause?: unknown) =>
    new KasError({ code: 'REPOSITORY_FAILED', detail: `credentials_file ${file}: ${detail}` }, { cause })
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw failed(error.code ?? 'unreadable', error)
  })
  const line = text.trim()
  if (line === '' || line.length > maxCredentialsBytes || /[\r\n\0]/.test(line)) {
    throw failed('allowed: one line, user:password or a token alone')
  }
  return Buffer.from(line.includes(':') ? line : `oauth2:${line}`, 'utf8').toString('base64')
}

function gitEnvironment(
  folder: string,
  own: Readonly<Record<string, string | undefined>>,
  settings: Readonly<Record<string, string>>,
): Record<string, string> {
  const env: Record<string, string> = {
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ALLOW_PROTOCOL: allowedProtocols,
    GIT_DIR: folder,
  }
  for (const name of passedOn) {
    const value = own[name]
    if (value !== undefined) env[name] = value
  }
  const entries = Object.entries(settings)
  env.GIT_CONFIG_COUNT = String(entries.length)
  for (const [i, [key, value]] of entries.entries()) {
    env[`GIT_CONFIG_KEY_${i}`] = key
    env[`GIT_CONFIG_VALUE_${i}`] = value
  }
  return env
}
