import { join } from 'node:path'
import { Parser } from 'tap-parser'
import { emptyResult, type FileResult } from './file-result.ts'
import type { Job } from './jobs.ts'
import { type RunOptions, runProgram } from './run-program.ts'
import type { Cost } from './schedule.ts'
import { tally, tallyFiles } from './tally.ts'

const alone = join(import.meta.dirname, 'alone.ts')
const together = join(import.meta.dirname, 'together.ts')

export interface JobResult {
  readonly results: readonly FileResult[]
  readonly cost: Cost
}

/** Runs a job. A single file is the program itself; several files run in a row in one process. */
export async function runJob({ name, files }: Job, options: RunOptions): Promise<JobResult> {
  const [file] = files
  return file !== undefined && files.length === 1 ? runFile(file, options) : runTogether(name, files, options)
}

async function runFile(file: string, options: RunOptions): Promise<JobResult> {
  const started = performance.now()
  const result = emptyResult(file)
  const parser = new Parser()
  const settle = tally(parser, result)
  const { complaints, output, cost } = await runProgram(
    file,
    { path: [alone, join(options.root, file)] },
    parser,
    options,
  )
  settle(complaints)
  return { results: [{ ...result, output, durationMs: performance.now() - started }], cost }
}

/** Returns the results of the files, and one named like the job if the process itself has a fault. */
async function runTogether(name: string, files: readonly string[], options: RunOptions): Promise<JobResult> {
  const parser = new Parser()
  const results = tallyFiles(parser)
  const { complaints, output, cost } = await runProgram(name, { path: [together], files }, parser, options)
  const missing = files.filter((file) => !results.some((result) => result.file === file))
  const failures = [
    ...complaints.map((details) => ({ name, details })),
    ...missing.map((file) => ({ name: file, details: `it did not come to its end in the process of ${name}` })),
  ]
  const isFailed = failures.length > 0 || results.some((result) => result.failures.length > 0)
  return { results: isFailed ? [...results, { ...emptyResult(name), failures, output }] : results, cost }
}
