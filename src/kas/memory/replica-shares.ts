const MiB = 1024 * 1024
/** Assumed where no limit is known: others use the machine, too. */
const assumedLimitBytes = 256 * MiB
/** A limit beyond this is none: where a cgroup has none, node says 2^63 less a page or 2^64. */
const absurdBytes = 2 ** 50
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
}

/** @param limitBytes - of the pod: `memoryLimit` */
export function replicaShares(limitBytes: number): ReplicaShares {
  return { unreadBytes: limitBytes / 8, callersBytes: limitBytes / 4 }
}

/** @param constrainedBytes - of the cgroup, v1 or v2, as node reads it; 0: unknown */
export function memoryLimit(constrainedBytes: number = process.constrainedMemory() ?? 0): number {
  if (constrainedBytes <= 0 || constrainedBytes >= absurdBytes) return assumedLimitBytes
  return Math.max(leastLimitBytes, constrainedBytes)
}
