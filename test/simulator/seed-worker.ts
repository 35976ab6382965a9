/** Runs the seeds that its parent sends, one after another; ends with its parent. */
import { type SimulationOptions, simulate } from './simulation.ts'

process.on('message', async ({ seed, size }: { seed: number; size: SimulationOptions }) => {
  process.send?.(await simulate(seed, size))
})
process.on('disconnect', () => process.exit())
