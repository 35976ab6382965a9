import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { Cost } from './schedule.ts'

/** The job that runs first and alone, to see how fast the machine is: some seconds of work, and hardly a wait. */
export const sampleName = 'test/unit/proto'

/** A machine that is slower still has no time for these tests. */
const mostSlowness = 8

/** From here on a machine is slow; less is the noise of the sample. */
export const isSlow = 1.4

/**
 * How many times longer work takes here than on the machine of test/times.json; 1: not longer, or nobody knows.
 *
 * @param load - by how much longer than its CPU time, because of other programs
 */
export function slownessOf(recorded: Cost | undefined, measured: Cost | undefined, load: number): number {
  const slower = recorded && measured ? measured.cpu / recorded.cpu : 1
  return Math.min(mostSlowness, Math.max(1, slower) * Math.max(1, load))
}

/** CPU time of each thread: some turns of the system's scheduler. ms */
const spinMs = 300

const spin = `
const { parentPort, workerData } = require('node:worker_threads')
const began = performance.now()
const cpuMs = () => process.threadCpuUsage().user / 1000
const first = cpuMs()
while (cpuMs() - first < workerData);
parentPort.postMessage((performance.now() - began) / workerData)`

/** By how much longer work on all cores takes now than its CPU time: other programs have the rest of them. */
export async function currentLoad(): Promise<number> {
  const threads = Array.from({ length: availableParallelism() }, async () => {
    const thread = new Worker(spin, { eval: true, workerData: spinMs })
    const [ratio] = (await once(thread, 'message')) as [number]
    return ratio
  })
  const ratios = await Promise.all(threads)
  return ratios.reduce((sum, each) => sum + each, 0) / ratios.length
}

/** A recorded cost, as it is here: work takes longer, waits do not. */
export function onMachine({ wall, cpu }: Cost, slowness: number): Cost {
  return { wall: wall + cpu * (slowness - 1), cpu: cpu * slowness }
}
