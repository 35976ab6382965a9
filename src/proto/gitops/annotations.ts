/** Annotations by which people direct a source, on the object that reports it (doc/guide/gitops.md). */

/** digest of the plan that is approved */
export const approveAnnotation = 'agent.gitlab.com/approve'
/** `true`: nothing of the source is written */
export const pauseAnnotation = 'agent.gitlab.com/pause'
/** any new text: the cluster is compared once more, and what differs is applied */
export const resyncAnnotation = 'agent.gitlab.com/resync'

/** Tells whether the text of an annotation says yes. */
export function saysYes(text: string): boolean {
  return /^(?:true|yes)$/i.test(text)
}
