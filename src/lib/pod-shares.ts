import { podLimit } from './pod-limit.ts'

const MiB = 1024 * 1024
/** Heap of views if no limit is known: the most that 200,000 objects, and their viewers, fill. MiB */
export const mostViewsHeapMb = 384
/** Memory of the thread of views beside its old generation: the young one, code, bytes outside of the heap. MiB */
const besideHeapMb = 64
/** Share of the thread of views in the pod. */
const viewsShare = 7 / 16

/** Shares of the pod's memory in agentk. Only the kernel ends a pod that uses more. */
export interface PodShares {
  /** size of the old generation of the thread of views. MiB */
  readonly viewsHeapMb: number
  /** memory for GitOps and for agentk itself; 0: no limit is known */
  readonly restBytes: number
}

/**
 * Returns the shares. Views get 7/16 of the pod, whether they are on or not, and 448 MiB at most: 224 MiB in a pod of
 * 512.
 *
 * @param podBytes - limit of the pod; 0: none is known
 */
export function podShares(podBytes: number = podLimit()): PodShares {
  if (podBytes <= 0) return { viewsHeapMb: mostViewsHeapMb, restBytes: 0 }
  const viewsMb = Math.min(mostViewsHeapMb + besideHeapMb, (podBytes / MiB) * viewsShare)
  const viewsHeapMb = Math.floor(Math.max(viewsMb - besideHeapMb, viewsMb / 2))
  return { viewsHeapMb, restBytes: podBytes - Math.ceil(viewsMb) * MiB }
}
