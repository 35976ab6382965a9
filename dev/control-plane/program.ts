import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Service } from '../../src/lib/service.ts'
import type { Warden } from './warden.ts'

export interface ProgramOptions {
  /** absolute path */
  command: string
  args: readonly string[]
  /** its working folder */
  folder: string
  /** file to which its output is added */
  logFile: string
  environment?: Readonly<Record<string, string>>
  /** time from SIGTERM to SIGKILL, without a signal for `stop`; default 5 s */
  stopTimeoutMs?: number
}

/** limit of the last part of a log, for a message */
const maxTailBytes = 2_000

/** One process in a group of its own, watched by a warden. */
export class Program implements Service {
  readonly #warden: Warden
  readonly #options: ProgramOptions
  #child: ChildProcess | undefined
  #exited: Promise<void> = Promise.resolve()
  /** it was sent a signal by `stop` or `signal` */
  #isSignalled = false

  constructor(components: { warden: Warden }, options: ProgramOptions) {
    this.#warden = components.warden
    this.#options = options
  }

  get name(): string {
    return basename(this.#options.command)
  }

  get running(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  get pid(): number | undefined {
    return this.running ? this.#child?.pid : undefined
  }

  /** resolves when the process has ended */
  get exited(): Promise<void> {
    return this.#exited
  }

  async start(): Promise<void> {
    const { command, args, folder, logFile, environment } = this.#options
    const log = openSync(logFile, 'a', 0o600)
    const child = spawn(command, args, {
      cwd: folder,
      env: { ...environment, ...this.#warden.environment },
      detached: true,
      stdio: ['ignore', log, log],
    })
    closeSync(log)
    await once(child, 'spawn')
    const group = child.pid as number
    this.#warden.adopt(group)
    this.#child = child
    this.#isSignalled = false
    this.#exited = this.#ended(child, group)
  }

  /** Resolves when the process has ended. An end that nobody has asked for is printed, with its log. */
  async #ended(child: ChildProcess, group: number): Promise<void> {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    this.#warden.release(group)
    if (this.#isSignalled) return
    process.stderr.write(
      `${this.name} (pid ${group}) has ended by itself, ${signal ?? `code ${code}`}:\n${await this.tail()}\n`,
    )
  }

  /** Sends SIGTERM, and SIGKILL to its whole group once `patience` aborts. */
  async stop(patience = AbortSignal.timeout(this.#options.stopTimeoutMs ?? 5_000)): Promise<void> {
    if (!this.running) return this.#exited
    const kill = () => this.signal('SIGKILL')
    patience.addEventListener('abort', kill, { once: true })
    this.signal(patience.aborted ? 'SIGKILL' : 'SIGTERM')
    await this.#exited
    patience.removeEventListener('abort', kill)
  }

  /** Sends the signal to its whole group, if it runs. */
  signal(signal: NodeJS.Signals): void {
    const pid = this.pid
    if (pid === undefined) return
    this.#isSignalled = true
    try {
      process.kill(-pid, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // ended meanwhile
    }
  }

  /** Returns the end of its log, for the message of a failure. */
  async tail(): Promise<string> {
    const log = await readFile(this.#options.logFile, 'utf8').catch(() => '')
    return log.slice(-maxTailBytes)
  }
}
