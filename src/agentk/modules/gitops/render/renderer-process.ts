import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import { type Clock, systemClock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { errorText } from '../../../../lib/errors.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { OutputReader } from './program-output.ts'

export interface RendererOptions {
  /** where programs are: folders as PATH has them */
  readonly path: string
  /** where each rendering has its own folder; default: the system's for what is temporary */
  readonly folder?: string
  readonly timeoutMs?: number
  /** of what a program prints; default: as the pod's memory has it */
  readonly maxOutputBytes?: number
  /** of a program, in KiB; default: the same */
  readonly maxMemoryKib?: number
  /** of memory that the pod may use, with the programs; 0: no limit is known; default: as the system says */
  readonly podBytes?: number
  /** programs keep the network, as where no namespace can be made for them */
  readonly keepsNetwork?: boolean
  /** called once, if programs keep the network: why */
  readonly onNetworkKept?: (reason: string) => void
}

export const renderTimeoutMs = 30_000
/** Of what a program says when it fails. */
const maxErrorBytes = 8 * 1024
/** Nobody listens there: what a program would fetch is not fetched. */
const deadProxy = 'http://127.0.0.1:1'

/** How programs in Go end that may take no more; their stacks follow. */
const outOfMemory = /^fatal error: .*memory.*/m

/** Why nothing can be rendered of a commit, as users are to read it. */
export class RenderFailure extends Error {}

export interface ProgramRun {
  /** with its folder */
  readonly program: string
  readonly args: readonly string[]
  /** where it runs */
  readonly folder: string
  /** for what it keeps of its own */
  readonly home: string
}

/** What runs a program in a network namespace of its own, as root of a user namespace of its own. */
const unshare = 'unshare'

/**
 * Programs that render: each alone with its folder, without our environment, within bounds, and without a network where
 * `unshare -rn` may make a namespace for it.
 */
export class RendererProcesses {
  readonly #options: Omit<RendererOptions, 'folder' | 'podBytes' | 'maxOutputBytes'> &
    Required<Pick<RendererOptions, 'timeoutMs' | 'maxMemoryKib'>>
  readonly #clock: Clock
  #network: Promise<string | undefined> | undefined

  constructor(options: RendererOptions & Required<Pick<RendererOptions, 'maxMemoryKib'>>, clock: Clock = systemClock) {
    this.#options = { timeoutMs: renderTimeoutMs, ...options }
    this.#clock = clock
  }

  /** @returns where the program is; undefined: nowhere in PATH */
  find(name: string): string | undefined {
    const folders = this.#options.path.split(delimiter).filter((folder) => isAbsolute(folder))
    return folders.map((folder) => join(folder, name)).find(isProgram)
  }

  /**
   * Tried once.
   *
   * @returns why programs keep the network; undefined: they have none
   * @throws Error that the system starts no program now: it is tried again
   */
  networkKept(): Promise<string | undefined> {
    this.#network ??= this.#tryNamespace().then(
      (reason) => {
        if (reason !== undefined) this.#options.onNetworkKept?.(reason)
        return reason
      },
      (error) => {
        this.#network = undefined
        throw error
      },
    )
    return this.#network
  }

  async #tryNamespace(): Promise<string | undefined> {
    if (this.#options.keepsNetwork) return 'it is configured so'
    const program = this.find(unshare)
    if (program === undefined) return `the PATH of agentk lacks ${unshare}`
    try {
      const { signal } = new AbortController()
      const nothing = { program: '/bin/sh', args: ['-c', ':'], folder: '/', home: '/' }
      await this.#spawned([program, '-rn'], nothing, { add: () => undefined }, signal)
      return undefined
    } catch (error) {
      if ((error as NodeJS.ErrnoException).syscall !== undefined) throw error
      return errorText(error)
    }
  }

  /** Until it ends. @throws RenderFailure; what `output` throws; the signal's reason */
  async run(run: ProgramRun, output: OutputReader, signal: AbortSignal): Promise<void> {
    const kept = await abortable(this.networkKept(), signal)
    const namespace = kept === undefined ? [this.find(unshare) ?? unshare, '-rn'] : []
    await this.#spawned(namespace, run, output, signal)
  }

  /** @param prefix - runs the program, which takes its place */
  #spawned(
    prefix: readonly string[],
    { program, args, folder, home }: ProgramRun,
    output: OutputReader,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted()
    const { timeoutMs, maxMemoryKib } = this.#options
    const limited = ['-c', `ulimit -d ${maxMemoryKib} && exec "$0" "$@"`, ...prefix, program, ...args]
    // without streams where no descriptor is left
    const child: ChildProcess = spawn('/bin/sh', limited, {
      cwd: folder,
      env: { HOME: home, TMPDIR: home, HTTP_PROXY: deadProxy, HTTPS_PROXY: deadProxy },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a group of its own, which ends whole
    })
    return new Promise((resolve, reject) => {
      const errors: Buffer[] = []
      let errorBytes = 0
      const reason = () => new Error(`${basename(program)} did not end within ${timeoutMs / 1000} s: it is tried again`)
      const deadline = new Deadline({ ms: timeoutMs, clock: this.#clock, signals: [signal], reason })
      deadline.signal.addEventListener('abort', () => endGroup(child), { once: true })
      const ended = (code: number | null, killedBy: NodeJS.Signals | null) => {
        deadline.end()
        if (deadline.signal.aborted) return reject(deadline.signal.reason)
        if (code === 0) return resolve()
        const output = Buffer.concat(errors).toString().trim()
        // no namespace was left for it: that is not the commit's
        if (output.startsWith(`${unshare}: `)) return reject(new Error(output))
        const lacked = outOfMemory.exec(output)
        if (lacked) return reject(new RenderFailure(`${lacked[0]}: it may take ${Math.floor(maxMemoryKib / 1024)} MiB`))
        reject(new RenderFailure(output || `it ended by ${killedBy ?? `code ${code}`}`))
      }
      child.on('error', (error) => {
        deadline.abort(error)
        if (child.pid === undefined) ended(null, null) // where no descriptor is left, nothing else is emitted
      })
      child.stdout?.on('data', (chunk: Buffer) => {
        if (deadline.signal.aborted) return
        try {
          output.add(chunk)
        } catch (error) {
          deadline.abort(error)
        }
      })
      child.stderr?.on('data', (chunk: Buffer) => {
        errors.push(chunk.subarray(0, maxErrorBytes - errorBytes))
        errorBytes = Math.min(maxErrorBytes, errorBytes + chunk.length)
      })
      child.on('close', ended)
    })
  }
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
