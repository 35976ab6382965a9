import { podLimit } from './pod-limit.ts'

const MiB = 1024 * 1024
/** Of the heap of views where no limit is known: what 200,000 objects, and their viewers, fill at most. MiB */
export const mostViewsHeapMb = 384
/** Of the thread of views beside its old generation: the young one, code, bytes outside of the heap. MiB */
const besideHeapMb = 64
/** Of the pod, what is the thread of views' */
const viewsShare = 7 / 16

/** How agentk divides the memory of its pod: nothing but the kernel ends a pod that takes more. */
export interface PodShares {
  /** of the old generation of the thread of views. MiB */
  readonly viewsHeapMb: number
  /** what is left for GitOps and for agentk itself; 0: no limit is known */
  readonly restBytes: number
}

/**
 * Views have 7/16 of the pod, whether they are on or not, and 448 MiB at most: 224 MiB in a pod of 512.
 *
 * @param podBytes - limit of the pod; 0: none is known
 */
export function podShares(podBytes: number = podLimit()): PodShares {
  if (podBytes <= 0) return { viewsHeapMb: mostViewsHeapMb, restBytes: 0 }
  const viewsMb = Math.min(mostViewsHeapMb + besideHeapMb, (podBytes / MiB) * viewsShare)
  const viewsHeapMb = Math.floor(Math.max(viewsMb - besideHeapMb, viewsMb / 2))
  return { viewsHeapMb, restBytes: podBytes - Math.ceil(viewsMb) * MiB }
}
