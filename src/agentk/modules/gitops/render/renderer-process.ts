import { type ChildProcess, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import { type Clock, systemClock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { errorText } from '../../../../lib/errors.ts'
import { abortable } from '../../../../lib/signals.ts'
import type { OutputReader } from './program-output.ts'

export interface RendererOptions {
  /** folders of programs, in the format of PATH */
  readonly path: string
  /** parent folder of each rendering's own folder; default: the system's temporary folder */
  readonly folder?: string
  readonly timeoutMs?: number
  /** limit of a program's output; default: by the pod's memory */
  readonly maxOutputBytes?: number
  /** limit of a program's memory, in KiB; default: by the pod's memory */
  readonly maxMemoryKib?: number
  /** memory that the pod may use, with the programs; 0: no limit is known; default: from the system */
  readonly podBytes?: number
  /** programs keep the network, as if no namespace could be made for them */
  readonly keepsNetwork?: boolean
  /** called once with the reason, if programs keep the network */
  readonly onNetworkKept?: (reason: string) => void
}

export const renderTimeoutMs = 30_000
/** Limit of a program's error text. */
const maxErrorBytes = 8 * 1024
/** Address without a server, so that a program fetches nothing. */
const deadProxy = 'http://127.0.0.1:1'

/** Message of a Go program that runs out of memory; its stacks follow. */
const outOfMemory = /^fatal error: .*memory.*/m

/** Reason, for users, for which nothing can be rendered of a commit. */
export class RenderFailure extends Error {
  /** the program has written the text */
  readonly isOfProgram: boolean

  constructor(text: string, isOfProgram = false) {
    super(text)
    this.isOfProgram = isOfProgram
  }
}

export interface ProgramRun {
  /** path of the program */
  readonly program: string
  readonly args: readonly string[]
  /** working folder */
  readonly folder: string
  /** folder for the program's own files */
  readonly home: string
}

/** Program that runs another one in a new network namespace, as root of a new user namespace. */
const unshare = 'unshare'

/**
 * Runs programs that render: each with a folder of its own, within limits, and without agentk's environment. Programs
 * have no network if `unshare -rn` can make a namespace for them.
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

  /** @returns path of the program; undefined: it is not in PATH */
  find(name: string): string | undefined {
    const folders = this.#options.path.split(delimiter).filter((folder) => isAbsolute(folder))
    return folders.map((folder) => join(folder, name)).find(isProgram)
  }

  /**
   * Tries once to make a namespace.
   *
   * @returns the reason for which programs keep the network; undefined: they have none
   * @throws Error: the system starts no program now, and the next call tries again
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

  /** Runs the program to its end. @throws RenderFailure; the error of `output`; the signal's reason */
  async run(run: ProgramRun, output: OutputReader, signal: AbortSignal): Promise<void> {
    const kept = await abortable(this.networkKept(), signal)
    const namespace = kept === undefined ? [this.find(unshare) ?? unshare, '-rn'] : []
    await this.#spawned(namespace, run, output, signal)
  }

  /** @param prefix - command that starts the program in its own place */
  #spawned(
    prefix: readonly string[],
    { program, args, folder, home }: ProgramRun,
    output: OutputReader,
    signal: AbortSignal,
  ): Promise<void> {
    signal.throwIfAborted()
    const { timeoutMs, maxMemoryKib } = this.#options
    const limited = ['-c', `ulimit -d ${maxMemoryKib} && exec "$0" "$@"`, ...prefix, program, ...args]
    // the child has no streams if no descriptor is left
    const child: ChildProcess = spawn('/bin/sh', limited, {
      cwd: folder,
      env: { HOME: home, TMPDIR: home, HTTP_PROXY: deadProxy, HTTPS_PROXY: deadProxy },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a process group, to end all of it
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
        // no namespace was left, which is not the commit's fault
        if (output.startsWith(`${unshare}: `)) return reject(new Error(output))
        const lacked = outOfMemory.exec(output)
        if (lacked) return reject(new RenderFailure(`${lacked[0]}: it may take ${Math.floor(maxMemoryKib / 1024)} MiB`))
        reject(
          output ? new RenderFailure(output, true) : new RenderFailure(`it ended by ${killedBy ?? `code ${code}`}`),
        )
      }
      child.on('error', (error) => {
        deadline.abort(error)
        if (child.pid === undefined) ended(null, null) // without a descriptor there is no further event
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
