/** Values from here on mean no limit: for a cgroup without one, Node returns 2^63 less a page, or 2^64. */
const absurdBytes = 2 ** 50

/**
 * Memory limit of this process' pod.
 *
 * @param constrainedBytes - limit of the cgroup, v1 or v2, as Node reads it; 0: unknown
 * @returns bytes; 0: there is none, or none is known
 */
export function podLimit(constrainedBytes: number = process.constrainedMemory() ?? 0): number {
  return constrainedBytes <= 0 || constrainedBytes >= absurdBytes ? 0 : constrainedBytes
}
