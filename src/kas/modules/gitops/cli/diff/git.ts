import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { printable } from '../../../../../lib/printable.ts'

/** Limit of git's output in bytes: 10^6 files with names of 100 bytes are 160 MB. */
const maxGitBytes = 256 * 1024 * 1024

/** Limit of git's stderr that is read, in characters. */
const maxErrorChars = 2000

/** Variables that name a repository: git sets them for its hooks, and here the folder names it. */
const namesOfRepository = ['GIT_DIR', 'GIT_WORK_TREE', 'GIT_INDEX_FILE', 'GIT_COMMON_DIR', 'GIT_PREFIX'] as const

/** A program's environment. */
export type Environment = Readonly<Record<string, string | undefined>>

export interface GitOutput {
  /** exit code; 128: git cannot do it */
  readonly code: number
  readonly stdout: Buffer
  /** first line of stderr, without `fatal: ` */
  readonly problem: string
}

/**
 * Runs git in a folder, and waits for its end. git takes no lock and writes nothing.
 *
 * @throws Error: there is no git, it was ended by a signal, or its output is too long
 */
export async function runGit(folder: string, args: readonly string[], env: Environment): Promise<GitOutput> {
  const settings: Record<string, string | undefined> = { ...env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' }
  for (const name of namesOfRepository) delete settings[name]
  const git = spawn('git', ['-C', folder, ...args], { env: settings, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = once(git, 'close')
  const chunks: Buffer[] = []
  let [bytes, errors] = [0, '']
  git.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxGitBytes) git.kill()
    else chunks.push(chunk)
  })
  git.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(0, maxErrorChars)
  })
  const [code, signal] = await closed.catch((cause: Error) => {
    throw new Error(`git cannot be run: ${cause.message}`, { cause })
  })
  if (bytes > maxGitBytes) throw new Error(`git ${args[0]} prints more than ${maxGitBytes} bytes`)
  if (code === null) throw new Error(`git ${args[0]} was ended by ${signal}`)
  const [line = ''] = errors.split('\n')
  return { code, stdout: Buffer.concat(chunks), problem: printable(line.replace(/^(?:fatal|error): /, '')) }
}
