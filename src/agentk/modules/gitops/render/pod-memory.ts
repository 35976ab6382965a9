const MiB = 1024 * 1024
/** Where no limit is known, and above: what nobody needs more of. */
const mostBytes = 4096 * MiB
/** Of a turn: what is at work on one commit. */
const maxTurnBytes = 1024 * MiB
/** Of the thread, beside its old generation: the young one, code, bytes outside of the heap. MiB */
const besideHeapMb = 64

/** How GitOps shares the memory of its pod: nothing but the kernel ends a pod that takes more. */
export interface PodMemory {
  /** commits that are worked on at once: each by the thread of manifests or by a program, never by both */
  readonly turns: number
  /** of a program that renders. KiB */
  readonly programKib: number
  /** of the thread's heap. MiB */
  readonly threadMb: number
  /** of what a program prints */
  readonly outputBytes: number
  /** of the files of all sources. A source has its share in any case, so that these may be twice as much at worst */
  readonly fileBytes: number
  /** of the objects of all rounds, as JSON; the same */
  readonly objectBytes: number
}

/**
 * Half is for the turns, an eighth each for files and for objects at their worst. A quarter is agentk's own: 128 MiB of 512.
 *
 * @param podBytes - of the pod, what views leave (`podShares`); 0: no limit is known
 */
export function podMemory(podBytes: number): PodMemory {
  const pod = podBytes > 0 ? Math.min(podBytes, mostBytes) : mostBytes
  const turnBytes = Math.min(maxTurnBytes, pod / 2)
  const turnMb = turnBytes / MiB
  const kept = Math.floor(pod / 16)
  return {
    turns: Math.floor(pod / 2 / turnBytes),
    programKib: Math.floor(turnBytes / 1024),
    threadMb: Math.floor(Math.max(turnMb - besideHeapMb, turnMb / 2)),
    outputBytes: Math.min(64 * MiB, kept),
    fileBytes: kept,
    objectBytes: kept,
  }
}
