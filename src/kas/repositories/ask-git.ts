import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { GitPluginError, type SimpleGit, simpleGit } from 'simple-git'
import { Deadline } from '../../lib/deadline.ts'
import { gitEnvironment } from './git-environment.ts'
import { failureOf, GitFailure, type GitProcessOptions, limitsOf } from './git-process.ts'
import type { RepositoryAddress } from './repository-url.ts'

/** A question to git, whose answer is read as a whole. */
export interface GitQuestion<Answer> {
  /** whom git speaks to, with credentials */
  readonly address: RepositoryAddress
  /** of the answer */
  readonly maxBytes: number
  readonly signal: AbortSignal
  ask(git: SimpleGit): Promise<Answer>
}

/** What marks the processes of one run: a variable of their environment, which their children inherit. */
const runVariable = 'KAS_GIT_RUN'

/** A process may be born while the others are searched for. */
const maxRounds = 3

/** What simple-git is allowed beyond its defaults: names and values here are ours, never a user's. */
const unsafe = { allowUnsafeConfigEnvCount: true, allowUnsafePack: true }

/**
 * Asks a git in `folder`, within the bounds of `runGit`. simple-git can neither set limits nor end helpers: a shell that
 * reads its script from stdin sets the limits, and what an ended git leaves behind is found by a mark.
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
  let failure: GitFailure | undefined // simple-git throws one with another message
  const git = simpleGit({
    baseDir: folder,
    binary: ['sh', '-s'],
    input: () => `${limitsOf(options)}; git "$@" </dev/null; exit $?`,
    abort: ended.signal,
    timeout: { block: silenceTimeoutMs },
    allowEnvironment: Object.keys(env).filter((name) => name.startsWith('GIT_')),
    errors: (error, { exitCode, stdErr }) => {
      if (exitCode === 0 || error instanceof GitPluginError) return error
      failure = failureOf(Buffer.concat(stdErr).toString(), { status: exitCode }, options)
      return failure
    },
    unsafe,
  })
  git.env(env).outputHandler((_program, stdout, _stderr, [, command]) => {
    let left = maxBytes
    stdout.on('data', (bytes: Buffer) => {
      left -= bytes.length
      if (left >= 0) return
      ;(stdout as Readable).destroy() // simple-git would keep what comes until git has ended
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
 * Ends what a git that was ended left behind: its transport helpers (git-remote-https, ssh) do not end with it and
 * would wait for a silent server for minutes. Linux alone shows who they are; elsewhere they end by their own
 * time-outs.
 *
 * @param run - the value of `runVariable` that they were started with, unique to them
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
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '') // gone, or another user's
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
