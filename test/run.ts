/**
 * `npm test`: every test file in a process of its own, two at a time where files are light, one at a time where they
 * start whole programs, and beside either the few that mostly wait; last those that need the machine to themselves.
 * Prints each failure in full, one list of what was skipped and why, and as its last line
 * `N passed, N failed, N skipped`: tests, not assertions. Arguments: files, folders or parts of their paths;
 * `--jobs N`, `--timeout SECONDS` (of one file), `--grep PATTERN` (of test names).
 */
import { globSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import type { FileResult } from './runner/file-result.ts'
import { printFile, printSummary } from './runner/report.ts'
import { runFile } from './runner/run-file.ts'

const root = join(import.meta.dirname, '..')
const light = ['ground', 'unit', 'contract']
const heavy = ['cluster', 'e2e', 'hostile', 'peers', 'simulator']
/** start whole programs too, but do next to nothing for most of their time: they run beside the light ones */
const idle = new Set([
  'test/cluster/front-cuts.test.ts',
  'test/cluster/home.test.ts',
  'test/cluster/namespaces-discovery.test.ts',
  'test/cluster/namespaces-links.test.ts',
  'test/cluster/namespaces-one-port.test.ts',
  'test/cluster/secret-rotation.test.ts',
  'test/e2e/live-changes.test.ts',
  'test/peers/agentk-go-goaway.test.ts',
  'test/peers/agentk-go-kas-life.test.ts',
])
/** spend their time on leases, graces, time-outs and set-up: they run beside those that work */
const waiting = new Set([
  'test/cluster/front-nginx.test.ts',
  'test/cluster/frozen-holder.test.ts',
  'test/e2e/cluster-faults.test.ts',
  'test/e2e/control-plane.test.ts',
  'test/e2e/exactly-once.test.ts',
  'test/e2e/flux.test.ts',
  'test/e2e/kubectl-schemes.test.ts',
  'test/e2e/leader.test.ts',
  'test/e2e/rolling.test.ts',
  'test/e2e/start.test.ts',
  'test/peers/agentk-go-kubectl.test.ts',
  'test/peers/agentk-go-rolling.test.ts',
])

/** take both cores for a minute, to pack and to install: beside them others would be late */
const alone = new Set(['test/e2e/installed/installed.test.ts'])

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '2' },
    timeout: { type: 'string', default: '240' },
    grep: { type: 'string' },
  },
})

const wanted = positionals.map((path) => relative(root, join(process.cwd(), path)).replace(/\/$/, ''))

/** Test files of these folders, those named on the command line only, if any are named. */
function filesOf(folders: string[]): string[] {
  const files = folders.flatMap((folder) => globSync(`test/${folder}/**/*.test.ts`, { cwd: root }).sort())
  return wanted.length === 0 ? files : files.filter((file) => wanted.some((part) => file.includes(part)))
}

const options = { root, timeoutMs: Number(values.timeout) * 1000, lingerMs: 30_000, grep: values.grep }
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
const results: FileResult[] = []

async function runAll(files: string[], jobs: number): Promise<void> {
  const queue = files.values()
  const worker = async () => {
    for (const file of queue) {
      if (stop.signal.aborted) return
      const result = await runFile(file, { ...options, signal: stop.signal })
      results.push(result)
      printFile(result)
    }
  }
  await Promise.all(Array.from({ length: jobs }, worker))
}

const whole = filesOf(heavy)
const of = (some: ReadonlySet<string>) => whole.filter((file) => some.has(file))
const working = whole.filter((file) => ![idle, waiting, alone].some((some) => some.has(file)))
await Promise.all([runAll(filesOf(light), Number(values.jobs)), runAll(of(idle), 1)])
await Promise.all([runAll(working, 1), runAll(of(waiting), 1)])
await runAll(of(alone), 1)
process.exitCode = printSummary(results, { interrupted: stop.signal.aborted }) ? 0 : 1
