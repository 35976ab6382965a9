import os from 'node:os'
import type { Logger } from './log.ts'

/** Steps of niceness below the thread that starts this one. */
const steps = 5

export interface PrioritySystem {
  readonly platform: () => string
  readonly getPriority: () => number
  readonly setPriority: (niceness: number) => void
}

/**
 * Lowers the priority of the calling thread, so that threads that pass calls go first. The step is relative to the
 * process's priority, and downwards, which needs no right. On systems other than Linux the priority belongs to the
 * whole process, and stays.
 *
 * @returns the system's reason for a refusal; undefined: it accepted
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

/** Returns a function that logs only the first refusal: threads are restarted again and again. */
export function priorityNotice(): (log: Logger, reason: string) => void {
  let isLogged = false
  return (log, reason) => {
    if (isLogged) return
    isLogged = true
    log.warn({ reason }, sentence)
  }
}

/** The notice of all threads of the process. */
export const logPriorityRefused = priorityNotice()
