import os from 'node:os'
import type { Logger } from './log.ts'

/** Steps of niceness below the thread that started this one. */
const steps = 5

export interface PrioritySystem {
  readonly platform: () => string
  readonly getPriority: () => number
  readonly setPriority: (niceness: number) => void
}

/**
 * Lowers the priority of the thread that calls this: threads that pass calls go first. The step is relative to the
 * priority that the process has, and always downwards, which needs no right. On systems other than Linux the priority
 * belongs to the whole process, and stays.
 *
 * @returns why the system refused; undefined: it did not
 */
export function lowerPriority(system: PrioritySystem = os): string | undefined {
  if (system.platform() !== 'linux') return undefined
  try {
    system.setPriority(Math.min(os.constants.priority.PRIORITY_LOW, system.getPriority() + steps))
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

const sentence =
  'The system refuses a lower priority for the threads of views and manifests: calls may wait for them. A seccomp profile must allow setpriority'

/** @returns a function that logs the first refusal, and no other: threads begin again and again */
export function priorityNotice(): (log: Logger, reason: string) => void {
  let isLogged = false
  return (log, reason) => {
    if (isLogged) return
    isLogged = true
    log.warn({ reason }, sentence)
  }
}

/** One for all threads of the process. */
export const logPriorityRefused = priorityNotice()
