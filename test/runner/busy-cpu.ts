import { cpus } from 'node:os'

/** Seconds for which the cores of this machine have worked, for whomever. */
export function busyCpu(): number {
  return cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + user + nice + sys + irq, 0) / 1000
}
