import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { Deadline } from '../../lib/deadline.ts'
import { type GitEnvironmentOptions, gitEnvironment } from './git-environment.ts'
import { isOnThisMachine, type RepositoryAddress } from './repository-url.ts'

export interface GitProcessOptions extends GitEnvironmentOptions {
  /** a process without output for this long is ended, in ms */
  readonly silenceTimeoutMs: number
  /** the longest that a process may run, in ms */
  readonly maxRunMs: number
  /** computing time of a process and of each of its helpers, in seconds of a core */
  readonly maxCpuSeconds: number
}

/** One run of git whose output may be long. */
export interface GitRun {
  readonly argv: readonly string[]
  /** remote that git reaches, with credentials; absent: none */
  readonly address?: RepositoryAddress
  readonly input?: string
  /** Called with each piece of git's output. An error that it throws ends the process and is thrown. */
  take(bytes: Buffer): void
  readonly signal: AbortSignal
}

/** Reason for which git ended without its result. */
export class GitFailure extends Error {
  /** the commit exceeds a bound: git would end in the same way again */
  readonly isRefusal: boolean

  constructor(message: string, { isRefusal = false, cause }: { isRefusal?: boolean; cause?: unknown } = {}) {
    super(message, { cause })
    this.isRefusal = isRefusal
  }
}

/** characters of git's stderr that an error quotes */
const maxErrorChars = 2000

/**
 * Runs git in `folder` and waits until it and its helpers have ended; kas ends them together. The system enforces the
 * bounds of each. Git itself allocates as much as a pack demands, and a pack of some hundred bytes may demand
 * gigabytes.
 *
 * @throws GitFailure; KasError if credentials cannot be read; what `take` throws; the signal's reason
 * @see doc/decisions/0023-git-in-bounds.md
 */
export async function runGit(folder: string, run: GitRun, options: GitProcessOptions): Promise<void> {
  const { input = '', signal } = run
  const env = await gitEnvironment(folder, run.address, options)
  signal.throwIfAborted()
  // a process group of its own, so that its helpers end with it
  const git = spawn('sh', ['-c', `${limitsOf(options)}; exec git "$@"`, 'git', ...run.argv], {
    cwd: folder,
    env,
    detached: true,
  })
  const closed = once(git, 'close') // rejects on the `error` event: no shell was found
  const { silenceTimeoutMs, maxRunMs } = options
  const overTime = () => new GitFailure(`git took longer than ${maxRunMs} ms`)
  const noOutput = () => new GitFailure(`git said nothing for ${silenceTimeoutMs} ms`)
  const running = new Deadline({ ms: maxRunMs, signals: [signal], reason: overTime })
  const silence = new Deadline({ ms: silenceTimeoutMs, signals: [running.signal], reason: noOutput })
  silence.signal.addEventListener('abort', () => endGroup(git.pid), { once: true })
  let errors = ''
  git.stderr.setEncoding('utf8').on('data', (text: string) => {
    silence.restart()
    errors = (errors + text).slice(0, maxErrorChars)
  })
  git.stdout.on('data', (bytes: Buffer) => {
    silence.restart()
    try {
      if (!silence.signal.aborted) run.take(bytes)
    } catch (error) {
      silence.abort(error)
    }
  })
  git.stdin.on('error', () => undefined) // git has ended early: its exit status gives the reason
  git.stdin.end(input)
  try {
    const [status, endedBy] = (await closed) as [number | null, NodeJS.Signals | null]
    silence.signal.throwIfAborted()
    if (status !== 0) throw failureOf(errors, { status, endedBy, address: run.address }, options)
  } finally {
    silence.end()
    running.end()
  }
}

/**
 * Returns the shell commands that set the limits of git. The limit of memory counts allocations, but not mapped packs.
 * A lower limit that is already set stays.
 */
export function limitsOf({ maxMemoryBytes, maxCpuSeconds }: GitProcessOptions): string {
  const limits = [`-d ${Math.floor(maxMemoryBytes / 1024)}`, `-S -t ${maxCpuSeconds}`, '-c 0']
  return limits.map((limit) => `ulimit ${limit} 2>/dev/null`).join('; ')
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // all of them have ended by themselves
  }
}

interface GitEnd {
  readonly status: number | null
  readonly endedBy?: NodeJS.Signals | null
  readonly address?: RepositoryAddress | undefined
}

/**
 * Names the bound that git exceeded, or quotes its stderr.
 *
 * @param how.status - null: a signal ended git. A shell that waits for git adds 128 to the signal's number
 * @param how.address - remote that git reached; absent: none
 */
export function failureOf(
  errors: string,
  { status, endedBy, address }: GitEnd,
  { maxMemoryBytes, maxCpuSeconds }: GitProcessOptions,
): GitFailure {
  // git marks a server's messages with `remote:`; for a repository on this machine that server is a helper of kas
  const own = address && !isOnThisMachine(address.url) ? errors.replace(/^remote: .*$/gm, '') : errors
  if (/^(remote: )?(fatal|error): (Out of memory|attempting to allocate|mmap failed|unable to mmap)/im.test(own)) {
    const bound = `${Math.floor(maxMemoryBytes / 2 ** 20)} MiB of memory`
    return new GitFailure(`git needs more than ${bound} for this commit: ${mendedBy}`, { isRefusal: true })
  }
  const isSpent = endedBy === 'SIGXCPU' || status === 128 + constants.signals.SIGXCPU
  if (isSpent || /died of signal 24/.test(own)) {
    return new GitFailure(`git computes longer than ${maxCpuSeconds} s for this commit: ${mendedBy}`, {
      isRefusal: true,
    })
  }
  const end = status === null || status > 128 ? 'a signal' : `exit code ${status}`
  return new GitFailure(errors.trim().slice(0, maxErrorChars) || `git ended with ${end}`)
}

const mendedBy = 'push one with smaller files, or fewer of them; Git LFS keeps large ones elsewhere'
