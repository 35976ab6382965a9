import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { patience } from './slowness.ts'

/** `npm start` at a user's terminal: started, read, interrupted. */

/** working folder of npm start */
export const project = resolve(import.meta.dirname, '../..')
const { KUBEBUILDER_ASSETS: _, ...rest } = process.env
/** the environment without a real API server */
export const plainEnv: NodeJS.ProcessEnv = rest
const startTimeoutMs = 90_000

export interface Running {
  readonly child: ChildProcess
  readonly screen: string
  /** example commands, as printed; the last one goes on until it is ended */
  readonly lines: readonly string[]
  /** folder as printed, for instance `.run/1` */
  readonly folder: string
  readonly exited: Promise<number | null>
  /** a `change` event with each piece of output */
  readonly changed: EventTarget
  output(): string
}

/**
 * Starts a command that may fail, in a process group of its own, as a terminal does. @returns its output, and its end
 */
export function launch(t: Test, command: string[], env: NodeJS.ProcessEnv) {
  const [program = '', ...args] = command
  const child = spawn(program, args, { cwd: project, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  const changed = new EventTarget()
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      changed.dispatchEvent(new Event('change'))
    })
  }
  const exited = new Promise<number | null>((resolve) => child.once('close', resolve))
  let isClosed = false // then its group is gone, and the number may be another's
  child.once('close', () => {
    isClosed = true
  })
  t.teardown(async () => {
    if (isClosed) return
    signalGroup(child, 'SIGINT')
    const killed = setTimeout(() => signalGroup(child, 'SIGKILL'), patience(15_000))
    await exited
    clearTimeout(killed)
  })
  return { child, exited, output: () => output, changed }
}

export async function start(t: Test, command: string[], env: NodeJS.ProcessEnv = plainEnv): Promise<Running> {
  const { child, exited, output, changed } = launch(t, command, env)
  const printed = new Promise<void>((resolve) => {
    changed.addEventListener('change', () => linesOf(output()).length > 0 && resolve())
  })
  const ended = exited.then((code) => Promise.reject(new Error(`it ended with ${code}: ${output()}`)))
  ended.catch(() => undefined) // ignored once it has printed its lines
  const limit = new AbortController()
  const slow = delay(startTimeoutMs, limit.signal).then(() => Promise.reject(new Error(`too slow: ${output()}`)))
  slow.catch(() => undefined) // likewise
  await Promise.race([printed, ended, slow]).finally(() => limit.abort())
  const folder = /^ {2}files {4}(\S+)\/:/m.exec(output())?.[1] ?? ''
  return { child, exited, changed, screen: output(), lines: linesOf(output()), folder, output }
}

/** Resolves once the output matches. @throws Error when it ends without, or takes too long */
export async function said({ changed, output, exited }: Pick<Running, 'changed' | 'output' | 'exited'>, text: RegExp) {
  const limit = AbortSignal.timeout(patience(startTimeoutMs))
  const fail = () => Promise.reject(new Error(`no ${text} in: ${output()}`))
  const ended = exited.then(() => (text.test(output()) ? undefined : fail()))
  ended.catch(() => undefined) // ignored once it has matched
  while (!text.test(output())) await Promise.race([once(changed, 'change', { signal: limit }).catch(fail), ended])
}

function linesOf(output: string): string[] {
  const [, after = ''] = output.split('To try in another terminal, in this folder:\n\n')
  return after.includes('\n\n')
    ? (after
        .split('\n\n', 1)[0]
        ?.split('\n')
        .map((line) => line.trim()) ?? [])
    : []
}

export function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-(child.pid as number), signal)
  } catch {
    // it has ended
  }
}

/** Runs a printed line exactly as it is printed. */
export async function run(t: Test, line: string, env: NodeJS.ProcessEnv = plainEnv) {
  const child = spawn('sh', ['-c', line], { cwd: project, env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => child.kill('SIGKILL'))
  const closed = once(child, 'close')
  const [out, err] = await Promise.all([child.stdout.toArray(), child.stderr.toArray()])
  return { code: (await closed)[0] as number, out: out.join(''), err: err.join('') }
}

/** Returns the first lines of a command that does not end by itself. */
export async function firstLines(line: string, count: number): Promise<string[]> {
  const child = spawn('sh', ['-c', line], { cwd: project, detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const lines: string[] = []
    for await (const text of createInterface(child.stdout)) {
      lines.push(text)
      if (lines.length === count) break
    }
    return lines
  } finally {
    signalGroup(child, 'SIGKILL')
  }
}

export function processesNaming(text: string): string[] {
  const { stdout } = spawnSync('ps', ['-ewwo', 'pid=,args='], { encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line.includes(text))
}

/**
 * Observes the end of another process by a connection to a port on which it listens: the kernel closes it.
 *
 * @returns once connected; its `ended` resolves at the end
 */
export async function listenerAt(t: Test, port: number): Promise<{ ended: Promise<unknown> }> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  socket.on('error', () => undefined).resume() // reset: its end too
  return { ended: new Promise((resolve) => socket.once('close', resolve)) } // `once` would reject at a reset
}

/** @param folder - absolute path of a state folder */
export function ownerOf(folder: string): number {
  return (JSON.parse(readFileSync(join(folder, 'owner.json'), 'utf8')) as { pid: number }).pid
}
