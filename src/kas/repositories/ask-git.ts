import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { GitPluginError, type SimpleGit, simpleGit } from 'simple-git'
import { Deadline } from '../../lib/deadline.ts'
import { gitEnvironment } from './git-environment.ts'
import { failureOf, GitFailure, type GitProcessOptions, limitsOf } from './git-process.ts'
import type { RepositoryAddress } from './repository-url.ts'

/** A question to git. kas reads the answer as a whole. */
export interface GitQuestion<Answer> {
  /** remote that git reaches, with credentials */
  readonly address: RepositoryAddress
  /** bound of the answer */
  readonly maxBytes: number
  readonly signal: AbortSignal
  ask(git: SimpleGit): Promise<Answer>
}

/** Environment variable that marks the processes of one run; their children inherit it. */
const runVariable = 'KAS_GIT_RUN'

/** Searches for processes that git left: one may start while the others are searched for. */
const maxRounds = 3

/** Settings that simple-git permits beyond its defaults: names and values here are from kas, never from a user. */
const unsafe = { allowUnsafeConfigEnvCount: true, allowUnsafePack: true }

/**
 * Asks a git in `folder`, within the bounds of `runGit`. simple-git can neither set limits nor end helpers. So a shell
 * that reads its script from stdin sets the limits, and the helpers that an ended git left are found by a mark.
 *
 * @throws GitFailure; KasError if credentials cannot be read; the signal's reason
 */
export async function askGit<Answer>(
  folder: string,
  { address, maxBytes, signal, ask }: GitQuestion<Answer>,
  options: GitProcessOptions,
): Promise<Answer> {
  const { silenceTimeoutMs, maxRunMs } = options
  const run = randomUUID()
  const env = { ...(await gitEnvironment(folder, address, options)), [runVariable]: run }
  signal.throwIfAborted()
  const reason = () => new GitFailure(`git took longer than ${maxRunMs} ms`)
  const ended = new Deadline({ ms: maxRunMs, signals: [signal], reason })
  let failure: GitFailure | undefined // simple-git throws an error with another message
  const git = simpleGit({
    baseDir: folder,
    binary: ['sh', '-s'],
    input: () => `${limitsOf(options)}; git "$@" </dev/null; exit $?`,
    abort: ended.signal,
    timeout: { block: silenceTimeoutMs },
    allowEnvironment: Object.keys(env).filter((name) => name.startsWith('GIT_')),
    errors: (error, { exitCode, stdErr }) => {
      if (exitCode === 0 || error instanceof GitPluginError) return error
      failure = failureOf(Buffer.concat(stdErr).toString(), { status: exitCode, address }, options)
      return failure
    },
    unsafe,
  })
  git.env(env).outputHandler((_program, stdout, _stderr, [, command]) => {
    let left = maxBytes
    stdout.on('data', (bytes: Buffer) => {
      left -= bytes.length
      if (left >= 0) return
      ;(stdout as Readable).destroy() // simple-git would keep further output until git has ended
      ended.abort(new GitFailure(`git ${command} answers with more than ${maxBytes} bytes`))
    })
  })
  ended.signal.addEventListener('abort', () => void endLeftovers(run), { once: true }) // git outlives its shell
  try {
    return await ask(git)
  } catch (error) {
    await endLeftovers(run)
    ended.signal.throwIfAborted()
    const hasTimedOut = error instanceof GitPluginError && error.plugin === 'timeout'
    if (hasTimedOut) throw new GitFailure(`git said nothing for ${silenceTimeoutMs} ms`, { cause: error })
    throw failure ?? error
  } finally {
    ended.end()
  }
}

/**
 * Ends the helpers of a git that was ended. Transport helpers (git-remote-https, ssh) do not end with it and would wait
 * minutes for a server that does not answer. Only Linux shows these processes; elsewhere they end by their own
 * timeouts.
 *
 * @param run - the value of `runVariable` in their environment, unique to them
 */
async function endLeftovers(run: string): Promise<void> {
  for (let round = 0; round < maxRounds; round++) {
    const pids = await processesOf(run)
    if (pids.length === 0) return
    for (const pid of pids) end(pid)
  }
}

async function processesOf(run: string): Promise<readonly number[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const mark = `${runVariable}=${run}`
  const marked = pids.map(async (pid) => {
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '') // ended, or another user's
    return environment.split('\0').includes(mark) ? [pid] : []
  })
  return (await Promise.all(marked)).flat()
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it ended by itself
  }
}
