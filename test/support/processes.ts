import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Warden } from '../../dev/control-plane/warden.ts'
import { patience } from './slowness.ts'

/** The part of a test that this needs. */
export interface TornDown {
  teardown(handler: () => unknown): unknown
}

export interface ProcessOptions {
  command: string
  args: readonly string[]
  /** variables beside HOME and TMPDIR (the test's folder both) and `inheritedNames`; it gets no others */
  environment?: Readonly<Record<string, string>>
  folder?: string
  /** input, sent whole, then ended; absent: an empty input */
  stdin?: string | Uint8Array
  /** its input stays open after that */
  keepsInput?: boolean
}

export interface Exit {
  /** exit code; -1 when a signal ended it */
  code: number
  stdout: Buffer
  stderr: string
}

/**
 * names of variables for the paths of programs, the test runner's compiled code and garbage collection, and its mark of
 * a test's processes
 */
const inheritedNames = ['PATH', 'NODE_COMPILE_CACHE', 'GOGC', 'KAS_TEST_MARK']
const inherited = () => Object.fromEntries(inheritedNames.map((name) => [name, process.env[name]]))

/** default limit for an output that a test waits for. ms */
const defaultTimeoutMs = 30_000

/** Child processes of a test, and a folder for their files. All of it is removed with the test, however it ends. */
export class Processes {
  readonly folder: string
  readonly #warden: Warden
  readonly #running = new Set<TestProcess>()

  private constructor(folder: string, warden: Warden) {
    this.folder = folder
    this.#warden = warden
  }

  static async start(t: TornDown): Promise<Processes> {
    const folder = await mkdtemp(join(tmpdir(), 'processes-'))
    const warden = new Warden({ folders: [folder] })
    await warden.start()
    const processes = new Processes(folder, warden)
    t.teardown(() => processes.stop())
    return processes
  }

  async spawn(options: ProcessOptions): Promise<TestProcess> {
    const child = spawn(options.command, options.args, {
      cwd: options.folder ?? this.folder,
      env: {
        ...inherited(),
        HOME: this.folder,
        TMPDIR: this.folder,
        ...options.environment,
        ...this.#warden.environment,
      },
      detached: true,
      stdio: 'pipe',
    })
    const started = new TestProcess(child, [options.command, ...options.args].join(' '))
    if (!options.keepsInput) child.stdin.end(options.stdin)
    else if (options.stdin !== undefined) child.stdin.write(options.stdin)
    await once(child, 'spawn')
    const group = child.pid as number
    this.#warden.adopt(group)
    this.#running.add(started)
    void started.exited.then(() => {
      this.#running.delete(started)
      this.#warden.release(group)
    })
    return started
  }

  /** Kills the running processes and removes the folder. */
  async stop(): Promise<void> {
    for (const running of this.#running) running.signal('SIGKILL')
    await this.#warden.stop()
  }
}

/** One child process: its output so far, and its output to come. */
export class TestProcess {
  /** Resolves when it has ended and its output is complete; never rejects. */
  readonly exited: Promise<Exit>
  readonly #child: ChildProcess
  readonly #title: string
  readonly #stdout: Buffer[] = []
  readonly #stderr: Buffer[] = []

  constructor(child: ChildProcess, title: string) {
    this.#child = child
    this.#title = title
    child.stdout?.on('data', (chunk: Buffer) => this.#stdout.push(chunk))
    child.stderr?.on('data', (chunk: Buffer) => this.#stderr.push(chunk))
    child.stdin?.on('error', () => undefined) // it ended without reading all of it
    this.exited = once(child, 'close').then(
      ([code]) => ({ code: code ?? -1, stdout: Buffer.concat(this.#stdout), stderr: this.stderr }),
      (error: Error) => ({ code: -1, stdout: Buffer.alloc(0), stderr: error.message }),
    )
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  get stdout(): string {
    return Buffer.concat(this.#stdout).toString()
  }

  get stderr(): string {
    return Buffer.concat(this.#stderr).toString()
  }

  /** Sends the signal to its whole group; does nothing if it has ended. */
  signal(signal: NodeJS.Signals): void {
    if (!this.isRunning || !this.#child.pid) return
    process.kill(-this.#child.pid, signal)
  }

  /**
   * Returns the first match in its past or future output, on stdout or stderr.
   *
   * @throws Error when it ends without, or after `timeoutMs` (default 30 s); the message contains its output
   */
  async says(pattern: RegExp, options: { timeoutMs?: number } = {}): Promise<RegExpExecArray> {
    const signal = AbortSignal.timeout(patience(options.timeoutMs ?? defaultTimeoutMs))
    const { promise, resolve, reject } = Promise.withResolvers<RegExpExecArray>()
    const look = () => {
      const match = pattern.exec(this.stdout) ?? pattern.exec(this.stderr)
      if (match) resolve(match)
    }
    const fail = (why: string) => reject(new Error(`${this.#title}: ${why}, no ${pattern} in:\n${this.#all}`))
    signal.addEventListener('abort', () => fail('not in time'), { once: true })
    void this.exited.then(() => {
      look()
      fail('it ended')
    })
    this.#child.stdout?.on('data', look)
    this.#child.stderr?.on('data', look)
    look()
    try {
      return await promise
    } finally {
      this.#child.stdout?.off('data', look)
      this.#child.stderr?.off('data', look)
    }
  }

  /** @throws Error after `timeoutMs` (default 30 s), having killed it; the message contains its output */
  async ends(options: { timeoutMs?: number } = {}): Promise<Exit> {
    const timeout = setTimeout(() => this.signal('SIGKILL'), patience(options.timeoutMs ?? defaultTimeoutMs))
    const exit = await this.exited
    clearTimeout(timeout)
    if (exit.code === -1) throw new Error(`${this.#title}: killed or not started:\n${this.#all}\n${exit.stderr}`)
    return exit
  }

  get #all(): string {
    return `${this.stdout}\n${this.stderr}`
  }
}
