/** Annotations by which people direct a source, on the object that reports it (doc/guide/gitops.md). */

/** digest of the plan that is approved */
export const approveAnnotation = 'agent.gitlab.com/approve'
/** `true`: nothing of the source is written */
export const pauseAnnotation = 'agent.gitlab.com/pause'
/** on an object of a source: time in RFC 3339 until which its drift is left as it is */
export const holdAnnotation = 'agent.gitlab.com/correct-after'
/** any new text: the cluster is compared once more, and what differs is applied */
export const resyncAnnotation = 'agent.gitlab.com/resync'
/** written by agentk: the text of the last `resync` that was done */
export const resyncedAnnotation = 'agent.gitlab.com/resynced'

/** True if the text of an annotation says yes. */
export function saysYes(text: string): boolean {
  return /^(?:true|yes)$/i.test(text)
}
