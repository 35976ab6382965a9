import type { Cost } from './schedule.ts'

/** The job that runs first and alone, to see how fast the machine is: some seconds of work, and hardly a wait. */
export const sampleName = 'test/unit/proto'

/** A machine that is slower still has no time for these tests. */
const mostSlowness = 4

/** From here on a machine is slow; less is the noise of the sample. */
export const isSlow = 1.4

/** How many times slower this machine is than the one of test/times.json; 1: not slower, or nobody knows. */
export function slownessOf(recorded: Cost | undefined, measured: Cost | undefined): number {
  if (!recorded || !measured) return 1
  return Math.min(mostSlowness, Math.max(1, measured.cpu / recorded.cpu))
}

/** A recorded cost, as it is here: work takes longer, waits do not. */
export function onMachine({ wall, cpu }: Cost, slowness: number): Cost {
  return { wall: wall + cpu * (slowness - 1), cpu: cpu * slowness }
}
