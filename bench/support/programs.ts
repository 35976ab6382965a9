import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'

/** length of a child's stderr that is kept, for the message of a failure */
const keptStderrCharacters = 4096

export interface SpawnOptions {
  readonly env?: Record<string, string>
  /** flags of Node */
  readonly flags?: readonly string[]
  /** the reader of its stdout has stopped; default: the output is dropped */
  readonly hasStoppedReader?: boolean
}

const endings = ['SIGTERM', 'SIGHUP'] as const

/** Child programs of a bench, which end with it, also after a signal that they do not get. */
export class Programs {
  readonly #children: ChildProcess[] = []
  readonly #onSignal = (_: NodeJS.Signals, number: number) => {
    this.stop()
    process.exit(128 + number)
  }

  constructor() {
    for (const signal of endings) process.once(signal, this.#onSignal)
  }

  /** Starts a program that sends one message over IPC when it is ready. @returns the message */
  async start<Said>(
    file: string,
    args: string[],
    env: Record<string, string> = {},
  ): Promise<{ pid: number; said: Said }> {
    const child = this.spawn(file, args, { env })
    const [said] = (await Promise.race([once(child, 'message'), failed(child, file)])) as [Said]
    return { pid: child.pid as number, said }
  }

  /** Starts a program without waiting for its readiness. */
  spawn(
    file: string,
    args: string[],
    { env = {}, flags = [], hasStoppedReader = false }: SpawnOptions = {},
  ): ChildProcess {
    const options = { execArgv: [...process.execArgv, ...flags], env: { ...process.env, ...env } }
    return this.#kept(
      file,
      fork(file, args, { ...options, stdio: ['ignore', hasStoppedReader ? 'pipe' : 'ignore', 'pipe', 'ipc'] }),
    )
  }

  /** Starts a program that is not of Node. Its input ends with the bench. */
  spawnOther(file: string, args: readonly string[], env: Record<string, string>): ChildProcess {
    return this.#kept(file, spawn(file, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'ignore', 'pipe'] }))
  }

  #kept(file: string, child: ChildProcess): ChildProcess {
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-keptStderrCharacters)
    })
    child.once('exit', (code, signal) => {
      if (signal !== 'SIGKILL') process.stderr.write(`${file} ended with ${code ?? signal}\n${said}`)
    })
    this.#children.push(child)
    return child
  }

  stop(): void {
    for (const signal of endings) process.off(signal, this.#onSignal)
    for (const child of this.#children) child.kill('SIGKILL')
  }
}

async function failed(child: ChildProcess, file: string): Promise<never> {
  const [code] = (await once(child, 'exit')) as [number]
  throw new Error(`${file} ended with ${code}`)
}

/** Returns the process's user and system time so far. Seconds */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  const clockTicksPerSecond = 100
  return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2
}
