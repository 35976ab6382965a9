import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Parser } from 'tap-parser'
import { systemClock } from '../../src/lib/clock.ts'
import { busyCpu } from './busy-cpu.ts'
import { endProcesses, processesMarked } from './marked-processes.ts'
import { OpenHandles } from './open-handles.ts'
import type { Cost } from './schedule.ts'

export interface RunOptions {
  root: string
  timeoutMs: number
  /** ms from the end of a test to the start of the next one, or to the end of the process */
  lingerMs: number
  /** pattern of test names; undefined: all tests */
  grep: string | undefined
  signal: AbortSignal
}

export interface Program {
  /** absolute path of the program, and its arguments */
  readonly path: readonly string[]
  /** files that the program reads from `KAS_TEST_FILES` */
  readonly files?: readonly string[]
}

/** Result of one process of tests. */
export interface Ended {
  /** complaints about the process as a whole: it exceeded its time, or left something behind */
  readonly complaints: string[]
  /** output besides the results */
  readonly output: string
  /** cost; its CPU time includes all programs that ran meanwhile */
  readonly cost: Cost
}

/** ms that a file has for its own report after a time-out, before it is killed */
const lastWordsMs = 2_000
/** ms from the end of a file's process to the end of the processes that it started */
const leftoverMs = 2_000
/** MiB; a larger young generation is collected less often: a tenth less CPU time */
const roomForYoung = ['--min-semi-space-size=32', '--max-semi-space-size=32']
/** number of characters kept of a file's other output */
const outputLimit = 200_000

function environment(mark: string, files: readonly string[], options: RunOptions): NodeJS.ProcessEnv {
  const { root, timeoutMs, grep } = options
  const own = Object.entries(process.env).filter(([name]) => !/^(_?TAP|npm_)/.test(name))
  return {
    ...Object.fromEntries(own),
    TAP: '1',
    TAP_TIMEOUT: String(timeoutMs / 1000),
    ...(grep === undefined ? {} : { TAP_GREP: grep }),
    KAS_TEST_MARK: mark,
    KAS_TEST_FILES: files.join('\n'),
    // files and programs that run later reuse the compiled code
    NODE_COMPILE_CACHE: join(root, 'node_modules', '.cache', 'compiled'),
  }
}

/**
 * Runs a program to its end and passes its TAP to `parser`. It complains if the program exceeds its time, lingers after
 * its last test (a handle is open), or leaves processes behind. It ends these processes.
 */
export async function runProgram(
  name: string,
  { path, files = [] }: Program,
  parser: Parser,
  options: RunOptions,
): Promise<Ended> {
  const started = performance.now()
  const busyBefore = busyCpu()
  const mark = `${process.pid}:${name}`
  const child = spawn(process.execPath, [...roomForYoung, ...path], {
    cwd: options.root,
    env: environment(mark, files, options),
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  })
  const [, stdout, stderr, told] = child.stdio as unknown as [null, Readable, Readable, Readable]
  let output = ''
  const keep = (text: string) => {
    if (output.length < outputLimit) output += text
  }
  parser.on('extra', keep)
  stderr.setEncoding('utf8').on('data', keep)
  stdout.setEncoding('utf8').pipe(parser)

  const complaints: string[] = []
  const done = new AbortController()
  const end = async (why: string) => {
    complaints.push(why)
    child.kill('SIGALRM')
    await delay(lastWordsMs, undefined, { signal: done.signal }).catch(() => {})
    if (child.exitCode === null) child.kill('SIGKILL')
  }
  const overdue = setTimeout(() => void end(`took over ${options.timeoutMs / 1000} s`), options.timeoutMs)
  const onLinger = () => void end('did not end after its last test: something is left open')
  const handles = new OpenHandles({ clock: systemClock }, { lingerMs: options.lingerMs, onLinger })
  told.setEncoding('utf8').on('data', (text: string) => handles.read(text))
  const abandon = () => child.kill('SIGTERM')
  options.signal.addEventListener('abort', abandon)

  const closed = once(child, 'close')
  const [code, signal] = await once(child, 'exit')
  const cost = { wall: (performance.now() - started) / 1000, cpu: busyCpu() - busyBefore }
  done.abort()
  clearTimeout(overdue)
  handles.stop()
  options.signal.removeEventListener('abort', abandon)
  const left = await endProcesses(() => processesMarked(mark), leftoverMs)
  complaints.push(...left.map((command) => `left a process running: ${command}`))
  await Promise.race([closed, delay(leftoverMs, undefined, { ref: false })])
  for (const stream of [stdout, stderr, told]) stream.destroy()
  if (!parser.results) parser.end()
  if (code !== 0 && parser.ok && complaints.length === 0) complaints.push(`ended with ${signal ?? code}`)
  return { complaints, output, cost }
}
