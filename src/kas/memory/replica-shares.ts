import { podLimit } from '../../lib/pod-limit.ts'

const MiB = 1024 * 1024
/** Assumed where no limit is known: others use the machine, too. */
const assumedLimitBytes = 256 * MiB
/** A smaller pod is divided as if it had so much. */
const leastLimitBytes = 64 * MiB

/**
 * How a replica divides the memory of its pod among those who have something that waits in it. The rest is of kas
 * itself: 150 to 200 MiB, and what malloc and V8 need beside what is counted.
 */
export interface ReplicaShares {
  /** what agents and callers have sent, and nobody has taken yet */
  readonly unreadBytes: number
  /** connections and calls of callers on 8154 */
  readonly callersBytes: number
  /** files of GitOps rounds that run, and their listings */
  readonly gitopsRoundsBytes: number
  /** files of GitOps that are kept for the next rounds */
  readonly gitopsFilesBytes: number
}

/** @param limitBytes - of the pod: `memoryLimit` */
export function replicaShares(limitBytes: number): ReplicaShares {
  return {
    unreadBytes: limitBytes / 8,
    callersBytes: limitBytes / 4,
    gitopsRoundsBytes: limitBytes / 8,
    gitopsFilesBytes: limitBytes / 16,
  }
}

/** @param limitBytes - of the pod; 0: none is known */
export function memoryLimit(limitBytes: number = podLimit()): number {
  return Math.max(leastLimitBytes, limitBytes || assumedLimitBytes)
}
