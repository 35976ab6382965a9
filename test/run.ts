/**
 * `npm test`: runs each test file in its own process. Files of some folders share a process (runner/jobs.ts).
 * Long jobs start first. The number of jobs at once depends on the cores and on the times in test/times.json.
 *
 * Prints each failure in full, and a list of the skipped tests with reasons. The last line,
 * `N passed, N failed, N skipped`, counts tests, not assertions.
 *
 * Arguments: files, folders or parts of their paths.
 * - `--jobs N`: maximum number of jobs at once; default: 6
 * - `--timeout SECONDS`: timeout of one file; a shared process has three times as long; default: 480
 * - `--grep PATTERN`: runs only tests with such names
 * - `--record`: runs jobs one by one and writes their times; no other program may run on the machine
 */
import { globSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { Warden } from '../dev/control-plane/warden.ts'
import { bundledPrograms } from './runner/bundled-programs.ts'
import type { FileResult } from './runner/file-result.ts'
import { type Job, jobsOf } from './runner/jobs.ts'
import { currentLoad, isSlow, onMachine, sampleName, slownessOf, waitFactor } from './runner/machine-speed.ts'
import { memoryFolder } from './runner/memory-folder.ts'
import { printFile, printSummary } from './runner/report.ts'
import { runJob } from './runner/run-job.ts'
import { type Cost, nextToStart, unmeasured } from './runner/schedule.ts'
import { readTimes, updated, writeTimes } from './runner/times.ts'

const root = join(import.meta.dirname, '..')
const timesFile = join(import.meta.dirname, 'times.json')

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '6' },
    timeout: { type: 'string', default: '480' },
    grep: { type: 'string' },
    record: { type: 'boolean', default: false },
  },
})

/** Factor for the cores: a job is idle at times, and another job can run then. */
const overlap = 1.35
const machine = { cores: overlap * availableParallelism(), jobs: values.record ? 1 : Number(values.jobs) }
const options = { root, timeoutMs: Number(values.timeout) * 1000, lingerMs: 30_000, grep: values.grep }
const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())

const wanted = positionals.map((path) => relative(root, join(process.cwd(), path)).replace(/\/$/, ''))
const all = globSync('test/**/*.test.ts', { cwd: root }).sort()
const chosen = all.filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))

const files = new Map(jobsOf(all).map(({ name, files }) => [name, files.length]))
// a pattern selects at the first level of a process: its tests, or the files of a shared process
const jobs = values.grep === undefined ? jobsOf(chosen) : chosen.map((file) => ({ name: file, files: [file] }))

// whole runs and recorded runs start bundled programs, which start fast; other runs start those of the source tree
if (wanted.length === 0 || values.record) process.env.KAS_TEST_PROGRAMS ??= await bundledPrograms(root)

// Go programs of tests live for seconds: rarer garbage collection saves CPU time and takes memory
process.env.GOGC ??= '400'

/** Free space for stores of API servers, repositories, packages and images of all running files. GiB */
const inMemory = 8
// folder for results that several files share, and for all temporary files; it is removed after this process
const shared = await mkdtemp(join(memoryFolder(inMemory), 'kas-tests-'))
process.env.TMPDIR = shared
const warden = new Warden({ folders: [shared] })
await warden.start()
process.env.KAS_TEST_FOLDER = shared

const times = readTimes(timesFile)
const measured = new Map<string, Cost>()
const results: FileResult[] = []

/** Factor for the timeout of a shared process, whose files run one after the other. */
const roomTimes = 3
/** slowness of this machine: a factor for CPU time */
let slowness = 1
/** slowness of this machine under its present load: a factor for timeouts */
let waits = 1

async function run(job: Job): Promise<void> {
  const timeoutMs = options.timeoutMs * waits * (job.files.length > 1 ? roomTimes : 1)
  const { results: ofJob, cost } = await runJob(job, { ...options, timeoutMs, signal: stop.signal })
  results.push(...ofJob)
  for (const result of ofJob) printFile(result)
  const isGood = job.files.length === files.get(job.name) && ofJob.every(({ failures }) => failures.length === 0)
  const isWhole = ofJob.some(({ skips }) => skips.length === 0)
  if (isGood && (isWhole || !times.has(job.name))) measured.set(job.name, cost)
}

// a whole run begins with the job that measures the speed of the machine
const sample = wanted.length === 0 && !values.record ? jobs.find(({ name }) => name === sampleName) : undefined
if (sample) {
  const load = await currentLoad()
  await run(sample)
  slowness = slownessOf(times.get(sampleName), measured.get(sampleName))
  waits = waitFactor(slowness, load)
  process.env.KAS_TEST_SLOWNESS = waits.toFixed(2)
  if (slowness > 1) console.log(`This machine is ${slowness.toFixed(1)} times slower than that of test/times.json`)
  if (waits > slowness) console.log(`Other programs use it: tests wait ${waits.toFixed(1)} times as long`)
}

// hostile tests judge how long good callers wait: on a slow machine each of them runs alone
const alone = slowness > isSlow ? jobs.filter(({ name }) => name.startsWith('test/hostile/')) : []
for (const job of alone) if (!stop.signal.aborted) await run(job)

const waiting = jobs
  .filter((job) => job !== sample && !alone.includes(job))
  .map((job) => ({ ...job, cost: onMachine(times.get(job.name) ?? unmeasured, slowness) }))
const running = new Map<(typeof waiting)[number], Promise<void>>()
while (waiting.length > 0 && !stop.signal.aborted) {
  const next = nextToStart(waiting, [...running.keys()], machine)
  if (next) {
    waiting.splice(waiting.indexOf(next), 1)
    running.set(
      next,
      run(next).finally(() => running.delete(next)),
    )
  } else await Promise.race(running.values())
}
await Promise.all(running.values())
await warden.stop()
if (values.record) writeTimes(timesFile, updated(times, measured, new Set(files.keys())))
process.exitCode = printSummary(results, { interrupted: stop.signal.aborted }) ? 0 : 1
