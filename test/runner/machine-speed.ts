import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Cost } from './schedule.ts'

/** Job that runs first and alone, to measure the speed of the machine: some seconds of work and almost no waits. */
export const sampleName = 'test/unit/proto'

/** Greatest factors of a machine, and of one that others use, too: beyond them these tests have no time. */
const mostSlowness = 4
const mostWaits = 8

/** Factor from which on a machine is slow; a smaller one is noise of the sample. */
export const isSlow = 1.4

/** Returns the factor by which this machine is slower than that of test/times.json; 1: not slower, or unknown. */
export function slownessOf(recorded: Cost | undefined, measured: Cost | undefined): number {
  if (!recorded || !measured) return 1
  return Math.min(mostSlowness, Math.max(1, measured.cpu / recorded.cpu))
}

/**
 * Returns the factor by which tests wait longer.
 *
 * @param load - factor by which work takes longer than its CPU time, because of other programs
 */
export function waitFactor(slowness: number, load: number): number {
  return Math.min(mostWaits, slowness * Math.max(1, load))
}

/** ms; CPU time of each thread, which spans some turns of the system's scheduler */
const spinMs = 300

const spin = `
const { parentPort, workerData } = require('node:worker_threads')
const began = performance.now()
const cpuMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
const first = cpuMs()
while (cpuMs() - first < workerData);
parentPort.postMessage((performance.now() - began) / workerData)`

/** Returns the factor by which work on all cores now takes longer than its CPU time, because of other programs. */
export async function currentLoad(): Promise<number> {
  const threads = Array.from({ length: availableParallelism() }, async () => {
    const thread = new Worker(spin, { eval: true, workerData: spinMs })
    const [ratio] = (await once(thread, 'message')) as [number]
    return ratio
  })
  const ratios = await Promise.all(threads)
  return ratios.reduce((sum, each) => sum + each, 0) / ratios.length
}

/** Returns the recorded cost on this machine: work takes longer, waits do not. */
export function onMachine({ wall, cpu }: Cost, slowness: number): Cost {
  return { wall: wall + cpu * (slowness - 1), cpu: cpu * slowness }
}
