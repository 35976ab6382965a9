import { cpus } from 'node:os'

/** Returns the CPU seconds of all cores of this machine, over all programs. */
export function busyCpu(): number {
  return cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000
}
