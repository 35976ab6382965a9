import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type SimulationOptions, type SimulationResult, simulate } from './simulation.ts'

export interface SeedRange {
  readonly from: number
  readonly seeds: number
  /** processes at once; 1: only this one */
  readonly jobs: number
}

export interface SeedTotals {
  /** the lowest seed that breaks a rule */
  readonly failed: SimulationResult | undefined
  /** number of seeds that were run */
  readonly seeds: number
  readonly faults: number
  readonly fewestFaults: number
  /** shortest of the worlds that broke no rule. Virtual ms */
  readonly shortestMs: number
  readonly calls: number
  readonly events: number
  /** CPU time of the processes that ran them. ms */
  readonly userMs: number
  readonly systemMs: number
}

export interface RunOptions {
  readonly signal?: AbortSignal
  /** called after each seed */
  readonly onResult?: (result: SimulationResult) => void
}

/** Runs seeds until the first that breaks a rule. No process is left running, also when `signal` aborts. */
export async function runSeeds(
  { from, seeds, jobs }: SeedRange,
  size: SimulationOptions,
  { signal, onResult }: RunOptions = {},
): Promise<SeedTotals> {
  const results: SimulationResult[] = []
  let next = from
  const take = () => (next < from + seeds && !signal?.aborted && !results.some(hasFailed) ? next++ : undefined)
  const runners = jobs === 1 ? [{ run: simulate, stop: () => undefined }] : Array.from({ length: jobs }, startRunner)
  const work = async ({ run }: Runner) => {
    for (let seed = take(); seed !== undefined; seed = take()) {
      const result = await run(seed, size)
      results.push(result)
      onResult?.(result)
    }
  }
  const stop = () => {
    for (const runner of runners) runner.stop()
  }
  signal?.addEventListener('abort', stop, { once: true })
  try {
    await Promise.all(runners.map(work))
  } finally {
    stop()
    signal?.removeEventListener('abort', stop)
  }
  return totalsOf(results)
}

function hasFailed({ violation }: SimulationResult): boolean {
  return violation !== undefined
}

function totalsOf(results: readonly SimulationResult[]): SeedTotals {
  const sum = (count: (result: SimulationResult) => number) => results.reduce((total, one) => total + count(one), 0)
  const whole = results.filter((one) => !hasFailed(one))
  return {
    failed: results.filter(hasFailed).sort((a, b) => a.seed - b.seed)[0],
    seeds: results.length,
    faults: sum(({ faults }) => faults.length),
    fewestFaults: Math.min(...whole.map(({ faults }) => faults.length)),
    shortestMs: Math.min(...whole.map(({ virtualMs }) => virtualMs)),
    calls: sum(({ outcomes }) => Object.values(outcomes).reduce((total, count) => total + count, 0)),
    events: sum(({ events }) => events),
    userMs: sum(({ cpu }) => cpu.userMs),
    systemMs: sum(({ cpu }) => cpu.systemMs),
  }
}

/**
 * Objects of a world live until its end: a quarter of the time went into moving them out of a small young generation.
 * MiB
 */
const youngGeneration = ['--min-semi-space-size=128', '--max-semi-space-size=128']

interface Runner {
  run(seed: number, size: SimulationOptions): Promise<SimulationResult>
  stop(): void
}

function startRunner(): Runner {
  const { NODE_OPTIONS: _, ...env } = process.env // a test runner's hooks are not for it
  const child: ChildProcess = fork(join(import.meta.dirname, 'seed-worker.ts'), [], { env, execArgv: youngGeneration })
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`a process that runs seeds ended with ${code ?? signal}`)
  })
  ended.catch(() => undefined) // the caller of `run` gets it
  return {
    run: async (seed, size) => {
      const answer = once(child, 'message')
      child.send({ seed, size })
      const [result] = await Promise.race([answer, ended])
      return result as SimulationResult
    },
    stop: () => void child.kill(),
  }
}
