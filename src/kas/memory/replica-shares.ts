import { podLimit } from '../../lib/pod-limit.ts'

const MiB = 1024 * 1024
/** Limit that is assumed if none is known: other programs use the machine, too. */
const assumedLimitBytes = 256 * MiB
/** Least limit: a smaller pod is divided as if it had this much. */
const leastLimitBytes = 64 * MiB

/**
 * Shares of the pod's memory in a replica, for data that waits in it. The rest is for kas itself: 150 to 200 MiB, and
 * the overhead of malloc and V8.
 */
export interface ReplicaShares {
  /** data of agents and callers that is not taken yet */
  readonly unreadBytes: number
  /** connections and calls of callers on 8154 */
  readonly callersBytes: number
  /** files of running GitOps reconciliations, and their listings */
  readonly gitopsRoundsBytes: number
  /** files of GitOps that are kept for later reconciliations */
  readonly gitopsFilesBytes: number
}

/** @param limitBytes - limit of the pod: `memoryLimit` */
export function replicaShares(limitBytes: number): ReplicaShares {
  return {
    unreadBytes: limitBytes / 8,
    callersBytes: limitBytes / 4,
    gitopsRoundsBytes: limitBytes / 8,
    gitopsFilesBytes: limitBytes / 16,
  }
}

/** @param limitBytes - limit of the pod; 0: none is known */
export function memoryLimit(limitBytes: number = podLimit()): number {
  return Math.max(leastLimitBytes, limitBytes || assumedLimitBytes)
}
