const MiB = 1024 * 1024
/** Memory without a known limit, and most memory that is of use. */
const mostBytes = 4096 * MiB
/** Most memory for a turn: the work on one commit. */
const maxTurnBytes = 1024 * MiB
/** Memory of the thread beside its old generation: young generation, code, bytes outside of the heap. MiB */
const besideHeapMb = 64

/** Limit of the files and objects of all previews (`preview_bytes`): a small pod has room for less. bytes */
const maxPreviewBytes = 64 * MiB

/** Division of the pod's memory for GitOps. The kernel ends a pod that takes more. */
export interface PodMemory {
  /** commits at work at once: each in the thread of manifests or in a program, never in both */
  readonly turns: number
  /** limit of a program that renders. KiB */
  readonly programKib: number
  /** limit of the thread's heap. MiB */
  readonly threadMb: number
  /** limit of a program's output */
  readonly outputBytes: number
  /** limit of all sources' files. A source may always use its share, so they may take twice as much at worst */
  readonly fileBytes: number
  /** limit of the objects of all rounds, as JSON; likewise */
  readonly objectBytes: number
  /** limit of all sources' manifests, compressed, with which the cluster is compared between rounds; likewise */
  readonly manifestBytes: number
  /** limit of the files and objects of all previews */
  readonly previewBytes: number
}

/**
 * Divides the memory: half for the turns, an eighth each for files and objects at their worst. The last quarter is
 * agentk's own, 128 MiB of 512: previews have half of it at their worst.
 *
 * @param podBytes - memory of the pod that views leave (`podShares`); 0: no limit is known
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
    manifestBytes: Math.floor(kept / 4),
    previewBytes: Math.min(maxPreviewBytes, kept),
  }
}
